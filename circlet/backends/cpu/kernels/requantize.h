/* Requantisation: from int32 sums to 8-bit outputs, as TFLite's kernels round.
 *
 * The reference multiplies by a mantissa of 31 bits, rounds the high half, shifts right and rounds
 * again. Every form below gives its bits; each is for sums and bounds of which a lowering proved
 * that it does (lower/integers/requantisation.py, affine_search.py). A vector of output channels
 * has Q8_QPARAM int32 lanes of requantisation parameters ("qparams"): the bias, then what the form
 * asks for. Outputs are made as int8, in [-128, 127]; for uint8 the top bit is flipped last.
 *
 * What the forms give, in instructions executed by a 1x1 convolution of 784 pixels with 24 inputs
 * and 144 outputs, over those with Q8_AFFINE (AVX-512 VNNI): Q8_AFFINE_FIXED_RELU with maps alone
 * 1.01, Q8_PIECEWISE 1.10, Q8_PIECEWISE_FIXED with maps alone 1.12, Q8_FIXED_RELU 1.20, Q8_FIXED
 * 1.40, Q8_GENERAL 1.80.
 */
#ifndef CIRCLET_REQUANTIZE_H
#define CIRCLET_REQUANTIZE_H

#include "fixed.h"
#include "stores.h"

#define Q8_QPARAM (5 * CIRCLET_LANES)
/* Fixed point where nothing leaves 32 bits: twice the multiplier, addends of even and of odd lanes,
 * right shift. */
#define Q8_FIXED 0
/* Fixed point for any sums and scales: multiplier, left shift, right shift. */
#define Q8_GENERAL 1
/* One product with a real, rounded once, as FULLY_CONNECTED rounds: a double in two vectors. */
#define Q8_DOUBLE 2
/* Results are floats: bias and weight scale as floats, sum of weights. */
#define Q8_HYBRID 3
/* Fixed point where nothing below the zero point is kept: multiplier, that of odd lanes in even
 * ones, addend, right shift - 1. */
#define Q8_FIXED_RELU 4
/* As Q8_HYBRID, every row of the input with a scale of its own. */
#define Q8_HYBRID_ROWS 5
/* A float slope and offset; or an offset below zero, one from zero on, and where zero is. */
#define Q8_AFFINE 6
#define Q8_PIECEWISE 7
/* One product with a float, rounded once, halves to even, as ONNX Runtime rounds: a factor. */
#define Q8_EVEN 8
/* The same where products are far from the ends of 32 bits. */
#define Q8_EVEN_SMALL 9
/* As Q8_DOUBLE where no product is the largest below a half, which adding a half makes 1: 64-bit Arm
 * rounds halves away from zero itself. */
#define Q8_DOUBLE_NEAREST 10
/* Maps in floats, but for vectors with a channel that has none: those have the parameters of
 * another form, which Q8_LEAST_AFFINE tells apart by their last lanes. */
#define Q8_AFFINE_FIXED_RELU 12
#define Q8_PIECEWISE_FIXED 13
#define Q8_AFFINE_GENERAL 14
#define Q8_PIECEWISE_GENERAL 15
#define Q8_AFFINE_EVEN_SMALL 16
#define Q8_LEAST_AFFINE 32
/* Results are the sums themselves, int32, over an image with a zero point as with Q8_HYBRID. */
#define Q8_SUMS (-1)
/* The same over rows with zero points of their own, and channels with theirs (cross_sums.h). */
#define Q8_CROSS_SUMS (-2)

/* Besides one of the forms from 0 on: saturation to the type of outputs is all that bounds them; and
 * the type is uint8. */
#define Q8_SATURATED 64
#define Q8_UNSIGNED 128
#define Q8_FORM(form) ((form) < 0 ? (form) : (form) & (Q8_SATURATED - 1))

/* How outputs are bounded; the bounds exclude the zero point. */
struct q8_bounds {
    int32_t low, high, zero;
    uint8_t flip;
    uint8_t are_saturated;
};

/* What `form` tells of bounds is known to the compiler. */
CIRCLET_INLINE struct q8_bounds q8_bounds_of(int32_t low, int32_t high, int32_t zero, int32_t flip,
                                             const int form) {
    const int saturated = form >= 0 && form & Q8_SATURATED;
    const int known_flip = form & Q8_UNSIGNED ? 0x80 : 0;
    return (struct q8_bounds){low, high, zero, (uint8_t)(saturated ? known_flip : flip),
                              saturated != 0};
}

/* x * multiplier * 2^shift + zero point, rounded twice, for any x. */
CIRCLET_INLINE vi q8_scale_general(vi x, const int32_t *qparam, struct q8_bounds bounds) {
    vi y = v_scale_twice(x, v_load_i32(qparam + CIRCLET_LANES),
                         v_load_i32(qparam + 2 * CIRCLET_LANES),
                         v_load_i32(qparam + 3 * CIRCLET_LANES));
    return v_clamp_i32(y, v_splat_i32(bounds.low), v_splat_i32(bounds.high)) + bounds.zero;
}

/* The same where x is small enough for all of it to fit 32 bits.
 *
 * Flooring twice is flooring once, so both roundings and the zero point are one addend:
 *
 *     floor((floor((x * m + 2^30) / 2^31) + 2^(r-1)) / 2^r)  =  floor((x * m + c) / 2^(31+r))
 *
 * but for x < 0, where halves round away from zero: x >> 31 adds the -1. Twice the multiplier is
 * stored less 2^32, which adding x makes up for; the high halves then need no shift. */
CIRCLET_INLINE vi q8_scale_fixed(vi x, const int32_t *qparam) {
    const int32_t *twice = qparam + CIRCLET_LANES;
    vl round_even = (vl)v_load_i32(qparam + 2 * CIRCLET_LANES);
    vl round_odd = (vl)v_load_i32(qparam + 3 * CIRCLET_LANES);
    vi right = v_load_i32(qparam + 4 * CIRCLET_LANES);
#if defined(__aarch64__)
    vi multiplier = (vi)((vu)v_load_i32(twice) >> 1);
    vi scaled = v_srdhm(x, multiplier) + v_high_halves(round_even, round_odd);
    return (scaled + (x >> 31)) >> right;
#else
    vl even = v_mul_even(x, v_load_i32(twice)) + round_even;
    vl odd = v_mul_even((vi)((vul)x >> 32), v_load_i32(twice + 1)) + round_odd;
    return (v_high_halves(even, odd) + (x + (x >> 31))) >> right;
#endif
}

/* The same where nothing below the zero point is kept: negative x need not round as they should,
 * so one floor of one product does both roundings and the shift. What the roundings and the zero
 * point add is an addend to the high half; its low half, 2^30, is the multiplier times a number
 * that the bias holds beside its own value, modulo 2^32. */
CIRCLET_INLINE vi q8_scale_fixed_relu(vi x, const int32_t *qparam) {
    vi multiplier = v_load_i32(qparam + CIRCLET_LANES);
    vi addend = v_load_i32(qparam + 3 * CIRCLET_LANES);
    vi right = v_load_i32(qparam + 4 * CIRCLET_LANES);
#if defined(__aarch64__)
    vi high;
    __asm__("sqdmulh %0.4s, %1.4s, %2.4s" : "=w"(high) : "w"(x), "w"(multiplier));
    return ((high >> 1) + addend) >> right;
#else
    vl even = v_mul_even(x, multiplier);
    vl odd = v_mul_even((vi)((vul)x >> 32), v_load_i32(qparam + 2 * CIRCLET_LANES));
    return (v_high_halves(even, odd) + addend) >> right;
#endif
}

/* x * factor in double, clamped, plus or minus a half, so that truncating rounds to nearest. */
CIRCLET_INLINE vd q8_round_half(vd x, const double *factor, struct q8_bounds bounds) {
    vd lowest = v_splat_f64(bounds.low), highest = v_splat_f64(bounds.high);
    vd y = x * v_load_f64(factor);
    y = v_blend_f64((vl)(y < lowest), lowest, y);
    y = v_blend_f64((vl)(y > highest), highest, y);
    vl sign = (vl)y & (vl)((vul){0} + (1ull << 63));
    return y + (vd)((vl)v_splat_f64(0.5) | sign);
}

CIRCLET_INLINE vi q8_scale_double(vi x, const int32_t *qparam, struct q8_bounds bounds) {
    const double *factor = (const double *)(qparam + CIRCLET_LANES);
    vd low = q8_round_half(v_half_to_f64(x, 0), factor, bounds);
    vd high = q8_round_half(v_half_to_f64(x, 1), factor + CIRCLET_LANES / 2, bounds);
    return v_f64_to_i32(low, high) + bounds.zero;
}

#if defined(__aarch64__)
CIRCLET_INLINE vi q8_scale_nearest(vi x, const int32_t *qparam, struct q8_bounds bounds) {
    const double *factor = (const double *)(qparam + CIRCLET_LANES);
    vd low = v_half_to_f64(x, 0) * v_load_f64(factor);
    vd high = v_half_to_f64(x, 1) * v_load_f64(factor + CIRCLET_LANES / 2);
    return v_saturating_add_i32(v_nearest_f64(low, high), v_splat_i32(bounds.zero));
}
#else
#define q8_scale_nearest q8_scale_double
#endif

CIRCLET_INLINE vi q8_scale_even(vi x, const int32_t *qparam, struct q8_bounds bounds) {
    vf y = v_to_f32(x) * v_load((const float *)(qparam + CIRCLET_LANES));
    y = v_clamp(y, v_splat((float)bounds.low), v_splat((float)bounds.high));
    return v_round_i32(y) + bounds.zero;
}

CIRCLET_INLINE vi q8_scale_even_small(vi x, const int32_t *qparam, struct q8_bounds bounds) {
    return v_round_i32(v_to_f32(x) * v_load((const float *)(qparam + CIRCLET_LANES))) + bounds.zero;
}

/* The same in floats, for channels whose every output was proved equal: one multiply-add and one
 * rounding to nearest. Sums start with the bits of 1.5 * 2^23 beside the bias, so that they are
 * floats without a conversion: there one unit of the last place is 1. */
CIRCLET_INLINE vi q8_scale_affine(vi x, const int32_t *qparam, const int sides) {
    const float *map = (const float *)qparam;
    vf offset = v_load(map + 2 * CIRCLET_LANES);
    if (sides == 2) {
        vi below = x < v_load_i32(qparam + 4 * CIRCLET_LANES);
        offset = v_select(below, offset, v_load(map + 3 * CIRCLET_LANES));
    }
    return v_round_i32(v_fma((vf)x, v_load(map + CIRCLET_LANES), offset));
}

/* Sums as outputs that only lack saturation to int8 and the activation's bounds. */
CIRCLET_INLINE vi q8_scale(vi x, const int32_t *qparam, struct q8_bounds bounds, int form) {
    return form == Q8_FIXED            ? q8_scale_fixed(x, qparam)
           : form == Q8_FIXED_RELU     ? q8_scale_fixed_relu(x, qparam)
           : form == Q8_DOUBLE         ? q8_scale_double(x, qparam, bounds)
           : form == Q8_DOUBLE_NEAREST ? q8_scale_nearest(x, qparam, bounds)
           : form == Q8_EVEN           ? q8_scale_even(x, qparam, bounds)
           : form == Q8_EVEN_SMALL     ? q8_scale_even_small(x, qparam, bounds)
           : form == Q8_AFFINE         ? q8_scale_affine(x, qparam, 1)
           : form == Q8_PIECEWISE      ? q8_scale_affine(x, qparam, 2)
                                       : q8_scale_general(x, qparam, bounds);
}

CIRCLET_INLINE vu8 q8_bound(vi8 bytes, struct q8_bounds bounds) {
    if (bounds.are_saturated) return (vu8)bytes ^ bounds.flip;
    bytes = v_max_i8(bytes, v_splat_i8((int8_t)(bounds.low + bounds.zero)));
    bytes = v_min_i8(bytes, v_splat_i8((int8_t)(bounds.high + bounds.zero)));
    return (vu8)bytes ^ bounds.flip;
}

/* Whether parameters are those of a map in floats, in a form that may have both. */
CIRCLET_INLINE int q8_is_affine(const int32_t *qparam, const int form) {
    const int is_mixed = Q8_FORM(form) >= Q8_AFFINE_FIXED_RELU;
    return is_mixed ? qparam[4 * CIRCLET_LANES] >= Q8_LEAST_AFFINE
                    : Q8_FORM(form) == Q8_AFFINE || Q8_FORM(form) == Q8_PIECEWISE;
}

/* Requantises a tile in place: `vectors` <= 4 registers of each of `pixels` pixels, which are
 * `pitch` apart. All of one register's first, so that its parameters are loaded once. */
CIRCLET_INLINE void q8_scale_tile(vi *acc, const int32_t *qparams, struct q8_bounds bounds,
                                  const int pixels, const int pitch, const int vectors,
                                  const int bounded_form) {
    const int form = Q8_FORM(bounded_form);
    const int mixed = form >= Q8_AFFINE_FIXED_RELU, usual = mixed ? Q8_AFFINE + form % 2 : form;
    const int other = form == Q8_AFFINE_EVEN_SMALL ? Q8_EVEN_SMALL
                      : form >= Q8_AFFINE_GENERAL  ? Q8_GENERAL
                      : form == Q8_PIECEWISE_FIXED ? Q8_FIXED
                                                   : Q8_FIXED_RELU;
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        const int32_t *qparam = qparams + n * Q8_QPARAM;
        if (mixed && !q8_is_affine(qparam, form)) {
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * pitch + n] = q8_scale(acc[m * pitch + n], qparam, bounds, other);
        } else {
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * pitch + n] = q8_scale(acc[m * pitch + n], qparam, bounds, usual);
        }
    }
}

/* How many pixels of a tile share a register of bytes. */
#define Q8_SHARE(vectors) ((vectors) >= 3 ? 1 : 4 / (vectors))

/* The bytes of the Q8_SHARE pixels of a requantised tile from pixel m on, side by side.
 *
 * Registers of channels become int8 together, four at a time, by instructions that interleave
 * them in groups of four lanes: channel c of the `vectors` registers is in lane
 * c % 4 + c / (4 * vectors) * 4 of register c / 4 % vectors.
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
CIRCLET_INLINE void q8_finish_tile(uint8_t *to, int64_t out_pixel, vi *acc, const int32_t *qparams,
                                   struct q8_bounds bounds, int64_t left, const int pixels,
                                   const int vectors, const int form, const int tail) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n += 4) {
        const int part = vectors - n < 4 ? vectors - n : 4, first = n * CIRCLET_LANES;
        const int bytes = part * CIRCLET_LANES;
        if (tail && left <= first) continue;
        q8_scale_tile(acc + n, qparams + n * Q8_QPARAM, bounds, pixels, vectors, part, form);
        if (!tail || CIRCLET_LIKELY(left - first >= bytes))
            q8_store_tile(to + first, out_pixel, acc + n, bounds, pixels, vectors, part, bytes);
        else
            q8_store_tile_n(to + first, out_pixel, acc + n, bounds, pixels, vectors, part,
                            left - first);
    }
}

/* Where an accumulator over an image with a zero point starts. */
CIRCLET_INLINE vi q8_hybrid_bias(const int32_t *qparam, int32_t image_zero) {
    return v_load_i32(qparam + 2 * CIRCLET_LANES) * -image_zero;
}

/* Accumulators of a hybrid kernel as real values: scaled, biased, clamped. */
CIRCLET_INLINE vf q8_scale_float(vi x, const float *qparam, float image_scale, float low,
                                 float high) {
    vf scale = v_load(qparam + CIRCLET_LANES) * v_splat(image_scale);
    vf y = v_fma(v_to_f32(x), scale, v_load(qparam));
    return v_clamp(y, v_splat(low), v_splat(high));
}

CIRCLET_INLINE void q8_store_float(float *to, vf y, int64_t count) {
    if (CIRCLET_LIKELY(count >= CIRCLET_LANES)) v_store(to, y);
    else if (count > 0) v_store_n(to, y, count);
}

#endif
