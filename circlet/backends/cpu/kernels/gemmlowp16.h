/* Fixed-point logistic and tanh of 16-bit raw values, as gemmlowp defines them.
 *
 * A raw value r with i integer bits stands for r / 2^(15 - i); results are Q0.15.
 */
#ifndef CIRCLET_GEMMLOWP16_H
#define CIRCLET_GEMMLOWP16_H

#include "simd_i16.h"

#define G16_ONE 32767
#define G16_EXP_MINUS_EIGHTH 28918 /* e^(-1/8) in Q0.15 */
#define G16_THIRD 10923            /* 1/3 in Q0.15 */

/* x / 2^exponent, rounded to nearest, halves away from zero; 0 < exponent. */
CIRCLET_INLINE vi16 g16_divide(vi16 x, const int exponent) {
    vi16 once = (x + (x >> 15)) >> (exponent - 1);
    return once - (once >> 1);
}

/* e^a of a Q0.15 value in [-1/4, 0), by a Taylor polynomial around -1/8. */
CIRCLET_INLINE vi16 g16_exp_near_zero(vi16 a) {
    vi16 x = a + (1 << 12);
    vi16 x2 = v_mul_q15(x, x), x3 = v_mul_q15(x2, x), x4 = v_mul_q15(x2, x2);
    vi16 inner = v_mul_q15(g16_divide(x4, 2) + x3, v_splat_i16(G16_THIRD)) + x2;
    vi16 power = x + g16_divide(inner, 1), base = v_splat_i16(G16_EXP_MINUS_EIGHTH);
    return v_saturating_add_i16(base, v_mul_q15(base, power));
}

/* e^a of a value a <= 0: the polynomial for what is within a quarter, times e^(-2^(i - 2)) for each
 * bit i of the quarters that are left of -a: those that a itself, below zero, has not set. */
CIRCLET_INLINE vi16 g16_exp_on_negative(vi16 a, const int integer_bits) {
    const int16_t factors[] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* e^-1/4 ... e^-16, Q0.15 */
    const int fraction_bits = 15 - integer_bits, quarter = 1 << (fraction_bits - 2);
    vi16 inside = (a & (int16_t)(quarter - 1)) - (int16_t)quarter;
    vi16 result = g16_exp_near_zero((vi16)((vu16)inside << integer_bits));
    CIRCLET_UNROLL for (int i = 0; i < 7; i++) {
        if (i - 2 >= integer_bits) break;
        vi16 is_set = (a & (int16_t)(quarter << i)) == 0;
        result = v_select_i16(is_set, v_mul_q15(result, v_splat_i16(factors[i])), result);
    }
    return v_select_i16(a == 0, v_splat_i16(G16_ONE), result);
}

/* 2 / (1 + x) as Q2.13 for Q0.15 x in [0, 1]: Newton's method on half the denominator d in [1/2,
 * 1], from the linear estimate 48/17 - 32/17 d, which is least wrong there: by 1/17, so that no
 * correction leaves 16 bits. */
CIRCLET_INLINE vi16 g16_reciprocal_of_one_plus(vi16 power) {
    vi16 half = (vi16)(((vu16)power + (G16_ONE + 1)) >> 1);
    vi16 x = v_mul_q15(half, v_splat_i16(-15420)) + 23130;
    CIRCLET_UNROLL for (int i = 0; i < 3; i++) {
        vi16 error = (1 << 13) - v_mul_q15(half, x);
        x = x + (v_mul_q15(x, error) << 2);
    }
    return x;
}

CIRCLET_INLINE vi16 g16_minus_size(vi16 x) { return v_min_i16(x, (vi16)(0 - (vu16)x)); }

/* 1 / (1 + e^-x) of a Q3.12 value. */
CIRCLET_INLINE vi16 g16_logistic(vi16 x) {
    vi16 power = g16_exp_on_negative(g16_minus_size(x), 3);
    vi16 y = g16_reciprocal_of_one_plus(power);
    y = v_saturating_add_i16(y, y);
    y = v_select_i16(x < 0, G16_ONE - y, y);
    return v_select_i16(x == 0, v_splat_i16(1 << 14), y);
}

/* Hyperbolic tangent of a value with 0 to 4 integer bits. */
CIRCLET_INLINE vi16 g16_tanh(vi16 x, const int integer_bits) {
    vi16 power = g16_exp_on_negative(g16_minus_size(x), integer_bits + 1);
    vi16 y = g16_reciprocal_of_one_plus(power) - (1 << 13);
    y = v_saturating_add_i16(y, y), y = v_saturating_add_i16(y, y);
    y = v_select_i16(x < 0, -y, y);
    return v_select_i16(x == 0, v_splat_i16(0), y);
}

#endif
