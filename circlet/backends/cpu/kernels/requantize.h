/* From int32 accumulators to 8-bit outputs, as TFLite's kernels round.
 *
 * Each vector of output channels has one record of Q8_RECORD int32 lanes: the bias, then what the
 * form asks for. Bounds are clamped before the output zero point is added, so nothing overflows.
 */
#ifndef CIRCLET_REQUANTIZE_H
#define CIRCLET_REQUANTIZE_H

#include "simd_int.h"

#define Q8_RECORD (4 * CIRCLET_LANES)
#define Q8_FIXED 0   /* multiplier, right shift - 1 (every right shift is at least 1) */
#define Q8_GENERAL 1 /* multiplier, right shift - 1 (or -1 for none), left shift */
#define Q8_DOUBLE 2  /* factor as double: two vectors */
#define Q8_HYBRID 3  /* bias as float, weight scale as float, sum of weights */

/* (2 * a * b) >> 32, rounded to nearest, halves up; the multipliers are never negative. */
CIRCLET_INLINE vi q8_doubling_high_mul(vi a, vi multiplier, vi odd_multiplier) {
#if defined(__aarch64__)
    (void)odd_multiplier;
    vi r;
    __asm__("sqrdmulh %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(multiplier));
    return r;
#else
    vl half = (vl){0} + (1ll << 30);
    vl even = v_mul_even(a, multiplier) + half;
    vl odd = v_mul_even((vi)((vul)a >> 32), odd_multiplier) + half;
    vl low = (vl){0} + 0xffffffffll;
    return (vi)((low & (vl)((vul)even >> 31)) | (~low & (odd + odd)));
#endif
}

/* x / 2^(exponent_less_one + 1), rounded to nearest, halves away from zero. */
CIRCLET_INLINE vi q8_rounding_halve(vi x, vi exponent_less_one) {
    vi once = (x + (x >> 31)) >> exponent_less_one;
    return once - (once >> 1);
}

/* x * multiplier * 2^shift of one vector of channels, rounded twice. */
CIRCLET_INLINE vi q8_scale_fixed(vi x, const int32_t *record, int form) {
    const int32_t *at = record + CIRCLET_LANES;
    vi less_one = v_load_i32(at + CIRCLET_LANES);
    if (form == Q8_GENERAL) x = (vi)((vu)x << (vu)v_load_i32(at + 2 * CIRCLET_LANES));
    vi scaled = q8_doubling_high_mul(x, v_load_i32(at), v_load_i32(at + 1));
    if (form == Q8_FIXED) return q8_rounding_halve(scaled, less_one);
    vi none = less_one < 0;
    return v_select_i32(none, scaled, q8_rounding_halve(scaled, less_one & ~none));
}

/* x * factor in double, clamped, rounded to nearest, halves away from zero. */
CIRCLET_INLINE vd q8_round_half(vd x, const double *factor, int32_t low, int32_t high) {
    vd y = x * v_load_f64(factor), lowest = v_splat_f64(low), highest = v_splat_f64(high);
    y = v_select_f64((vl)(y < lowest), lowest, y);
    y = v_select_f64((vl)(y > highest), highest, y);
    vl sign = (vl)y & (vl)((vul){0} + (1ull << 63));
    return y + (vd)((vl)v_splat_f64(0.5) | sign);
}

/* The stored output value of one vector of accumulators; low and high exclude the zero point. */
CIRCLET_INLINE vi q8_requantize(vi x, const int32_t *record, int32_t low, int32_t high,
                                int32_t zero, int form) {
    vi y;
    if (form == Q8_DOUBLE) {
        const double *factor = (const double *)(record + CIRCLET_LANES);
        vd a = q8_round_half(v_half_to_f64(x, 0), factor, low, high);
        vd b = q8_round_half(v_half_to_f64(x, 1), factor + CIRCLET_LANES / 2, low, high);
        y = v_f64_to_i32(a, b);
    } else {
        y = v_clamp_i32(q8_scale_fixed(x, record, form), v_splat_i32(low), v_splat_i32(high));
    }
    return y + zero;
}

/* Where an accumulator starts: the bias, or what the zero point of a hybrid image subtracts. */
CIRCLET_INLINE vi q8_bias(const int32_t *record, int32_t image_zero, int form) {
    if (form == Q8_HYBRID) return v_load_i32(record + 2 * CIRCLET_LANES) * -image_zero;
    return v_load_i32(record);
}

/* Stores accumulators of a hybrid kernel as real values: scaled, biased, clamped. */
CIRCLET_INLINE void q8_store_float(float *to, vi x, const float *record, float image_scale,
                                   float low, float high, int64_t count) {
    vf y = v_to_f32(x) * v_load(record + CIRCLET_LANES) * v_splat(image_scale);
    y = v_clamp(y + v_load(record), v_splat(low), v_splat(high));
    if (CIRCLET_LIKELY(count >= CIRCLET_LANES)) v_store(to, y);
    else if (count > 0) v_store_n(to, y, count);
}

#endif
