/* Fixed-point arithmetic on int32 lanes, as gemmlowp defines it. */
#ifndef CIRCLET_FIXED_H
#define CIRCLET_FIXED_H

#include "simd_int.h"

CIRCLET_INLINE vi v_shl_i32(vi a, vi n) { return (vi)((vu)a << (vu)n); }
CIRCLET_INLINE vi v_shr_i32(vi a, vi n) { return a >> n; }

/* The high halves of 64-bit lanes, those of even and of odd lanes in turn. */
CIRCLET_INLINE vi v_high_halves(vl even, vl odd) {
#if CIRCLET_LANES == 16
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27,
                                   13, 29, 15, 31);
#elif CIRCLET_LANES == 8
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 9, 3, 11, 5, 13, 7, 15);
#else
    return __builtin_shufflevector((vi)even, (vi)odd, 1, 5, 3, 7);
#endif
}

/* SaturatingRoundingDoublingHighMul: (a * b) >> 31, rounded to nearest, halves up; not both may
 * be INT32_MIN, whose product alone saturates. Even and odd lanes are multiplied apart, as
 * products have 64 bits; the odd ones, doubled, stand in the upper halves already. */
CIRCLET_INLINE vi v_srdhm(vi a, vi b) {
#if defined(__aarch64__)
    vi r;
    __asm__("sqrdmulh %0.4s, %1.4s, %2.4s" : "=w"(r) : "w"(a), "w"(b));
    return r;
#else
    vl half = (vl){0} + (1ll << 30);
    vl even = v_mul_even(a, b) + half;
    vl odd = v_mul_even((vi)((vul)a >> 32), (vi)((vul)b >> 32)) + half;
    return v_high_halves(even + even, odd + odd);
#endif
}

/* The same of two numbers; one factor is never INT32_MIN. */
CIRCLET_INLINE int32_t s_srdhm(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (1ll << 30)) >> 31);
}

/* RoundingDivideByPOT: x / 2^exponent, rounded to nearest, halves away from zero; 0 <= exponent <=
 * 31, x > INT32_MIN.
 *
 * Shifting by one less, and then taking off half of that, rounds halves up without an addend that
 * might overflow; taking 1 off negative x first makes them round away from zero. */
CIRCLET_INLINE vi v_rdbpot(vi x, vi exponent) {
    vi less_one = exponent - 1, none = less_one < 0;
    vi once = (x + (x >> 31)) >> (less_one & ~none);
    return v_select_i32(none, x, once - (once >> 1));
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
