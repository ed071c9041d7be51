/* From int32 accumulators to 8-bit outputs, as TFLite's kernels round.
 *
 * Each vector of output channels has one record of Q8_RECORD int32 lanes: the bias, then what the
 * form asks for. Outputs are made as int8, in [-128, 127]; for uint8 the top bit is flipped last.
 */
#ifndef CIRCLET_REQUANTIZE_H
#define CIRCLET_REQUANTIZE_H

#include "stores.h"

#define Q8_RECORD (5 * CIRCLET_LANES)
#define Q8_FIXED 0   /* twice the multiplier, rounding of even lanes, of odd lanes, right shift */
#define Q8_GENERAL 1 /* multiplier, right shift - 1 (or -1 for none), left shift */
#define Q8_DOUBLE 2  /* factor as double: two vectors */
#define Q8_HYBRID 3  /* bias as float, weight scale as float, sum of weights */
#define Q8_RISING 4  /* multiplier, that of odd lanes in even ones, addend, right shift - 1 */
#define Q8_HYBRID_ROWS 5 /* as Q8_HYBRID, every row of the input with a scale of its own */
#define Q8_LINE 6        /* slope and offset as floats */
#define Q8_LINES 7       /* slope, offset below zero, offset from zero on, where zero is */
/* Lines, and records of an integer form where the last lanes are below Q8_LEAST_LINE. */
#define Q8_LINE_FIXED 8
#define Q8_LINES_FIXED 9
#define Q8_LINE_GENERAL 10
#define Q8_LINES_GENERAL 11
#define Q8_LINE_RISING 12
#define Q8_LINES_RISING 13
#define Q8_LEAST_LINE 32

/* How outputs are bounded; the bounds exclude the zero point. */
struct q8_bounds {
    int32_t low, high, zero;
    uint8_t flip;
};

/* The high halves of the products in `even` and `odd`, in the order of their lanes. */
CIRCLET_INLINE vi q8_high_halves(vl even, vl odd) {
#if CIRCLET_LANES == 16
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27,
                                   13, 29, 15, 31);
#elif CIRCLET_LANES == 8
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 9, 3, 11, 5, 13, 7, 15);
#else
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 5, 3, 7);
#endif
}

#if defined(__aarch64__)
/* (2 * a * b) >> 32, rounded to nearest, halves up. */
CIRCLET_INLINE vi q8_doubling_high_mul(vi a, vi b) {
    vi r;
    __asm__("sqrdmulh %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
    return r;
}
#else
CIRCLET_INLINE vi q8_doubling_high_mul(vi a, vi b) {
    vl half = (vl){0} + (1ll << 30);
    vl even = v_mul_even(a, b) + half;
    vl odd = v_mul_even((vi)((vul)a >> 32), (vi)((vul)b >> 32)) + half;
    return q8_high_halves(even + even, odd + odd);
}
#endif

/* x / 2^(exponent_less_one + 1), rounded to nearest, halves away from zero. */
CIRCLET_INLINE vi q8_rounding_halve(vi x, vi exponent_less_one) {
    vi once = (x + (x >> 31)) >> exponent_less_one;
    return once - (once >> 1);
}

/* x * multiplier * 2^shift + zero point, rounded twice, for any x.  */
CIRCLET_INLINE vi q8_scale_general(vi x, const int32_t *record, struct q8_bounds bounds) {
    vi less_one = v_load_i32(record + 2 * CIRCLET_LANES), none = less_one < 0;
    x = (vi)((vu)x << (vu)v_load_i32(record + 3 * CIRCLET_LANES));
    vi y = q8_doubling_high_mul(x, v_load_i32(record + CIRCLET_LANES));
    y = v_select_i32(none, y, q8_rounding_halve(y, less_one & ~none));
    return v_clamp_i32(y, v_splat_i32(bounds.low), v_splat_i32(bounds.high)) + bounds.zero;
}

/* The same where x is small enough for all of it to fit 32 bits, in a third fewer instructions.
 *
 * Flooring twice is flooring once, so both roundings and the zero point are one addend. Twice the
 * multiplier is stored less 2^32, which adding x makes up for; the high halves then need no shift.
 */
CIRCLET_INLINE vi q8_scale_fixed(vi x, const int32_t *record) {
    const int32_t *twice = record + CIRCLET_LANES;
    vl round_even = (vl)v_load_i32(record + 2 * CIRCLET_LANES);
    vl round_odd = (vl)v_load_i32(record + 3 * CIRCLET_LANES);
    vi right = v_load_i32(record + 4 * CIRCLET_LANES);
#if defined(__aarch64__)
    vi multiplier = (vi)((vu)v_load_i32(twice) >> 1);
    vi scaled = q8_doubling_high_mul(x, multiplier) + q8_high_halves(round_even, round_odd);
    return (scaled + (x >> 31)) >> right;
#else
    vl even = v_mul_even(x, v_load_i32(twice)) + round_even;
    vl odd = v_mul_even((vi)((vul)x >> 32), v_load_i32(twice + 1)) + round_odd;
    return (q8_high_halves(even, odd) + (x + (x >> 31))) >> right;
#endif
}

/* The same where nothing below the zero point is kept: negative x need not round as they should,
 * so one floor of one product does both roundings and the shift. What the roundings and the zero
 * point add is an addend to the high half; its low half, 2^30, is the multiplier times a number
 * that the bias holds beside its own value, modulo 2^32. */
CIRCLET_INLINE vi q8_scale_rising(vi x, const int32_t *record) {
    vi multiplier = v_load_i32(record + CIRCLET_LANES);
    vi addend = v_load_i32(record + 3 * CIRCLET_LANES);
    vi right = v_load_i32(record + 4 * CIRCLET_LANES);
#if defined(__aarch64__)
    vi high;
    __asm__("sqdmulh %0.4s, %1.4s, %2.4s" : "=w"(high) : "w"(x), "w"(multiplier));
    return ((high >> 1) + addend) >> right;
#else
    vl even = v_mul_even(x, multiplier);
    vl odd = v_mul_even((vi)((vul)x >> 32), v_load_i32(record + 2 * CIRCLET_LANES));
    return (q8_high_halves(even, odd) + addend) >> right;
#endif
}

/* x * factor in double, clamped, plus or minus a half, so that truncating rounds to nearest. */
CIRCLET_INLINE vd q8_round_half(vd x, const double *factor, struct q8_bounds bounds) {
    vd lowest = v_splat_f64(bounds.low), highest = v_splat_f64(bounds.high);
    vd y = x * v_load_f64(factor);
    y = v_select_f64((vl)(y < lowest), lowest, y);
    y = v_select_f64((vl)(y > highest), highest, y);
    vl sign = (vl)y & (vl)((vul){0} + (1ull << 63));
    return y + (vd)((vl)v_splat_f64(0.5) | sign);
}

CIRCLET_INLINE vi q8_scale_double(vi x, const int32_t *record, struct q8_bounds bounds) {
    const double *factor = (const double *)(record + CIRCLET_LANES);
    vd low = q8_round_half(v_half_to_f64(x, 0), factor, bounds);
    vd high = q8_round_half(v_half_to_f64(x, 1), factor + CIRCLET_LANES / 2, bounds);
    return v_f64_to_i32(low, high) + bounds.zero;
}

/* The same in floats, for records whose every output was proved equal. Accumulators start with the
 * bits of a float beside the bias, so that they are floats without a conversion. */
CIRCLET_INLINE vi q8_scale_line(vi x, const int32_t *record, const int sides) {
    const float *line = (const float *)record;
    vf offset = v_load(line + 2 * CIRCLET_LANES);
    if (sides == 2) {
        vi below = x < v_load_i32(record + 4 * CIRCLET_LANES);
        offset = v_select(below, offset, v_load(line + 3 * CIRCLET_LANES));
    }
    return v_round_i32(v_fma((vf)x, v_load(line + CIRCLET_LANES), offset));
}

/* Accumulators as outputs that only lack saturation to int8 and the activation's bounds. */
CIRCLET_INLINE vi q8_scale(vi x, const int32_t *record, struct q8_bounds bounds, int form) {
    return form == Q8_FIXED    ? q8_scale_fixed(x, record)
           : form == Q8_RISING ? q8_scale_rising(x, record)
           : form == Q8_DOUBLE ? q8_scale_double(x, record, bounds)
           : form == Q8_LINE   ? q8_scale_line(x, record, 1)
           : form == Q8_LINES  ? q8_scale_line(x, record, 2)
                               : q8_scale_general(x, record, bounds);
}

CIRCLET_INLINE vu8 q8_bound(vi8 bytes, struct q8_bounds bounds) {
    bytes = v_max_i8(bytes, v_splat_i8((int8_t)(bounds.low + bounds.zero)));
    bytes = v_min_i8(bytes, v_splat_i8((int8_t)(bounds.high + bounds.zero)));
    return (vu8)bytes ^ bounds.flip;
}

/* Whether a record is that of a line, in a form that may have both. */
CIRCLET_INLINE int q8_is_line(const int32_t *record, const int form) {
    const int is_mixed = form >= Q8_LINE_FIXED;
    return is_mixed ? record[4 * CIRCLET_LANES] >= Q8_LEAST_LINE
                    : form == Q8_LINE || form == Q8_LINES;
}

/* Requantises a tile in place: `vectors` <= 4 registers of each of `pixels` pixels, which are
 * `pitch` apart. All of one register's first, so that its record is loaded once. */
CIRCLET_INLINE void q8_scale_tile(vi *acc, const int32_t *records, struct q8_bounds bounds,
                                  const int pixels, const int pitch, const int vectors,
                                  const int form) {
    const int mixed = form >= Q8_LINE_FIXED, usual = mixed ? Q8_LINE + form % 2 : form;
    const int other = form >= Q8_LINE_RISING    ? Q8_RISING
                      : form >= Q8_LINE_GENERAL ? Q8_GENERAL
                                                : Q8_FIXED;
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        const int32_t *record = records + n * Q8_RECORD;
        if (mixed && !q8_is_line(record, form)) {
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * pitch + n] = q8_scale(acc[m * pitch + n], record, bounds, other);
        } else {
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * pitch + n] = q8_scale(acc[m * pitch + n], record, bounds, usual);
        }
    }
}

/* How many pixels of a tile share a register of bytes. */
#define Q8_SHARE(vectors) ((vectors) >= 3 ? 1 : 4 / (vectors))

/* The bytes of the Q8_SHARE pixels of a requantised tile from pixel m on, side by side.
 *
 * Registers of channels become bytes together, four at a time, by instructions that weave them in
 * groups of four lanes: channel c of the `vectors` registers is in lane c % 4 + c / (4 * vectors)
 * * 4 of register c / 4 % vectors.
 */
CIRCLET_INLINE vu8 q8_pack(const vi *y, const int m, struct q8_bounds bounds, const int pixels,
                           const int pitch, const int vectors) {
    const int share = Q8_SHARE(vectors);
    vi part[4];
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
        int n = share > 1 ? i % vectors : i < vectors ? i : vectors - 1;
        int pixel = share > 1 ? m + i / vectors : m;
        part[i] = y[(pixel < pixels ? pixel : pixels - 1) * pitch + n];
    }
    vu8 packed = q8_bound(v_saturate_4_i8(part[0], part[1], part[2], part[3]), bounds);
    return v_ungroup(packed, vectors);
}

/* Stores `bytes` bytes, a constant, of each pixel of a requantised tile. Pixels that share a
 * register are one store where they are side by side. */
CIRCLET_INLINE void q8_store_tile(uint8_t *to, int64_t out_pixel, const vi *y,
                                  struct q8_bounds bounds, const int pixels, const int pitch,
                                  const int vectors, const int bytes) {
    const int share = Q8_SHARE(vectors);
    const int side_by_side = out_pixel == vectors * CIRCLET_LANES;
    CIRCLET_UNROLL for (int m = 0; m < pixels; m += share) {
        vu8 packed = q8_pack(y, m, bounds, pixels, pitch, vectors);
        if (share > 1 && m + share <= pixels && bytes == vectors * CIRCLET_LANES && side_by_side) {
            v_store_u8(to + m * out_pixel, packed);
            continue;
        }
        CIRCLET_UNROLL for (int i = 0; i < share; i++)
            if (m + i < pixels)
                v_store_part(to + (m + i) * out_pixel, packed, i * vectors * CIRCLET_LANES, bytes);
    }
}

/* The same where the number of bytes is known when the kernel runs, and is above 0. */
CIRCLET_INLINE void q8_store_tile_n(uint8_t *to, int64_t out_pixel, const vi *y,
                                    struct q8_bounds bounds, const int pixels, const int pitch,
                                    const int vectors, int64_t bytes) {
    const int share = Q8_SHARE(vectors), width = vectors * CIRCLET_LANES;
    CIRCLET_UNROLL for (int m = 0; m < pixels; m += share) {
        vu8 packed = q8_pack(y, m, bounds, pixels, pitch, vectors);
        CIRCLET_UNROLL for (int i = 0; i < share; i++)
            if (m + i < pixels)
                v_store_part_n(to + (m + i) * out_pixel, packed, i * width, width, bytes);
    }
}

/* Requantises and stores a tile that is all of a block of channels or, with `tail`, the first
 * `left` of it. */
CIRCLET_INLINE void q8_finish_tile(uint8_t *to, int64_t out_pixel, vi *acc, const int32_t *records,
                                   struct q8_bounds bounds, int64_t left, const int pixels,
                                   const int vectors, const int form, const int tail) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n += 4) {
        const int part = vectors - n < 4 ? vectors - n : 4, first = n * CIRCLET_LANES;
        const int bytes = part * CIRCLET_LANES;
        if (tail && left <= first) continue;
        q8_scale_tile(acc + n, records + n * Q8_RECORD, bounds, pixels, vectors, part, form);
        if (!tail || CIRCLET_LIKELY(left - first >= bytes))
            q8_store_tile(to + first, out_pixel, acc + n, bounds, pixels, vectors, part, bytes);
        else
            q8_store_tile_n(to + first, out_pixel, acc + n, bounds, pixels, vectors, part,
                            left - first);
    }
}

/* Where an accumulator over an image with a zero point starts. */
CIRCLET_INLINE vi q8_hybrid_bias(const int32_t *record, int32_t image_zero) {
    return v_load_i32(record + 2 * CIRCLET_LANES) * -image_zero;
}

/* Accumulators of a hybrid kernel as real values: scaled, biased, clamped. */
CIRCLET_INLINE vf q8_scale_float(vi x, const float *record, float image_scale, float low,
                                 float high) {
    vf scale = v_load(record + CIRCLET_LANES) * v_splat(image_scale);
    vf y = v_fma(v_to_f32(x), scale, v_load(record));
    return v_clamp(y, v_splat(low), v_splat(high));
}

CIRCLET_INLINE void q8_store_float(float *to, vf y, int64_t count) {
    if (CIRCLET_LIKELY(count >= CIRCLET_LANES)) v_store(to, y);
    else if (count > 0) v_store_n(to, y, count);
}

#endif
