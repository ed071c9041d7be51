/* Fixed-point arithmetic on int32 lanes, as gemmlowp defines it. */
#ifndef CIRCLET_FIXED_H
#define CIRCLET_FIXED_H

#include "simd.h"

typedef CIRCLET_VECTOR(uint64_t, CIRCLET_VBYTES) fixed_vul;

CIRCLET_INLINE vi v_shl_i32(vi a, vi n) { return (vi)((vu)a << (vu)n); }
CIRCLET_INLINE vi v_shr_i32(vi a, vi n) { return a >> n; }

/* Signed 64-bit products of the low halves of 64-bit lanes, rounded at bit 31. */
CIRCLET_INLINE vl fixed_product(vl a, vl b) {
    return (a << 32 >> 32) * (b << 32 >> 32) + (1ll << 30);
}

/* SaturatingRoundingDoublingHighMul: (a * b) >> 31, rounded to nearest, halves up; not both may
 * be INT32_MIN, whose product alone saturates. Even and odd lanes are multiplied apart, as
 * products have 64 bits; the odd ones, doubled, stand in the upper halves already. */
CIRCLET_INLINE vi v_srdhm(vi a, vi b) {
    fixed_vul even = (fixed_vul)fixed_product((vl)a, (vl)b);
    vl odd = fixed_product((vl)((fixed_vul)a >> 32), (vl)((fixed_vul)b >> 32));
    vl low = (vl){0} + 0xffffffffll;
    return (vi)((low & (vl)(even >> 31)) | (~low & (odd + odd)));
}

/* The same of two numbers; one factor is never INT32_MIN. */
CIRCLET_INLINE int32_t s_srdhm(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (1ll << 30)) >> 31);
}

/* RoundingDivideByPOT: x / 2^exponent, rounded to nearest, halves away from zero; 0 <= exponent <=
 * 31. Comparisons give -1 where they hold, hence the signs. */
CIRCLET_INLINE vi v_rdbpot(vi x, vi exponent) {
    vi mask = (vi)(((vu){0} + 1u << (vu)exponent) - 1u);
    vi threshold = (mask >> 1) - (vi)(x < v_zero_i32());
    return (x >> exponent) - (vi)((x & mask) > threshold);
}

/* x * 2^left * multiplier / 2^(31 + right), rounded twice: MultiplyByQuantizedMultiplier. */
CIRCLET_INLINE vi v_scale_twice(vi x, vi multiplier, vi left, vi right) {
    return v_rdbpot(v_srdhm(v_shl_i32(x, left), multiplier), right);
}
/* The same with one factor for all; a shift below 0 is one to the right. */
CIRCLET_INLINE vi v_scale_all(vi x, int32_t multiplier, int32_t shift) {
    return v_scale_twice(x, v_splat_i32(multiplier), v_splat_i32(shift > 0 ? shift : 0),
                         v_splat_i32(shift > 0 ? 0 : -shift));
}

#endif
