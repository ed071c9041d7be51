/* Fixed-point logistic and tanh of 16-bit raw values in int32 lanes, as gemmlowp defines them.
 *
 * A raw value r with i integer bits stands for r / 2^(15 - i); results are Q0.15.
 */
#ifndef CIRCLET_GEMMLOWP16_H
#define CIRCLET_GEMMLOWP16_H

#include "fixed.h"

#define G16_ONE 32767
#define G16_EXP_MINUS_EIGHTH 28918 /* e^(-1/8) in Q0.15 */
#define G16_THIRD 10923            /* 1/3 in Q0.15 */

/* (2 * a * b) >> 16, rounded to nearest, halves up; not both may be -32768. */
CIRCLET_INLINE vi g16_mul(vi a, vi b) { return (a * b + 16384) >> 15; }

CIRCLET_INLINE vi g16_saturate(vi x) {
    return v_clamp_i32(x, v_splat_i32(-32768), v_splat_i32(32767));
}

/* e^a of a Q0.15 value in [-1/4, 0), by a Taylor polynomial around -1/8. */
CIRCLET_INLINE vi g16_exp_near_zero(vi a) {
    vi x = a + (1 << 12);
    vi x2 = g16_mul(x, x), x3 = g16_mul(x2, x), x4 = g16_mul(x2, x2);
    vi inner = g16_mul(v_rdbpot(x4, v_splat_i32(2)) + x3, v_splat_i32(G16_THIRD)) + x2;
    vi power = x + v_rdbpot(inner, v_splat_i32(1));
    vi base = v_splat_i32(G16_EXP_MINUS_EIGHTH);
    return v_min_i32(base + g16_mul(base, power), v_splat_i32(G16_ONE));
}

/* e^a of a value a <= 0: the polynomial for what is within a quarter, times e^(-2^(i - 2)) for each
 * further bit i of -a that is set. */
CIRCLET_INLINE vi g16_exp_on_negative(vi a, const int integer_bits) {
    const int32_t factors[] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* e^-1/4 ... e^-16, Q0.15 */
    const int fraction_bits = 15 - integer_bits, quarter = 1 << (fraction_bits - 2);
    vi inside = (a & (quarter - 1)) - quarter;
    vi result = g16_exp_near_zero((vi)((vu)inside << integer_bits));
    vi rest = inside - a;
    CIRCLET_UNROLL for (int i = 0; i < 7; i++) {
        if (i - 2 >= integer_bits) break;
        vi off = (rest & (quarter << i)) == v_zero_i32();
        result = v_select_i32(off, result, g16_mul(result, v_splat_i32(factors[i])));
    }
    return v_select_i32(a == v_zero_i32(), v_splat_i32(G16_ONE), result);
}

/* 2 / (1 + x) as Q2.13 for Q0.15 x in [0, 1]: Newton's method on half the denominator d in [1/2,
 * 1], from the linear estimate 48/17 - 32/17 d, which is least wrong there. */
CIRCLET_INLINE vi g16_reciprocal_of_one_plus(vi power) {
    vi half = (power + (G16_ONE + 1)) >> 1;
    vi x = g16_mul(half, v_splat_i32(-15420)) + 23130;
    CIRCLET_UNROLL for (int i = 0; i < 3; i++) {
        vi error = (1 << 13) - g16_mul(half, x);
        x = x + g16_saturate((vi)((vu)g16_mul(x, error) << 2));
    }
    return x;
}

/* 1 / (1 + e^-x) of a Q3.12 value. */
CIRCLET_INLINE vi g16_logistic(vi x) {
    vi negative = x < v_zero_i32(), size = v_max_i32(x, -x);
    vi power = g16_exp_on_negative(-size, 3);
    vi y = g16_saturate((vi)((vu)g16_reciprocal_of_one_plus(power) << 1));
    y = v_select_i32(negative, G16_ONE - y, y);
    return v_select_i32(x == v_zero_i32(), v_splat_i32(1 << 14), y);
}

/* Hyperbolic tangent of a value with 0 to 4 integer bits. */
CIRCLET_INLINE vi g16_tanh(vi x, const int integer_bits) {
    vi negative = x < v_zero_i32(), size = v_max_i32(x, -x);
    vi power = g16_exp_on_negative(-size, integer_bits + 1);
    vi y = g16_reciprocal_of_one_plus(power) - (1 << 13);
    y = g16_saturate((vi)((vu)y << 2));
    y = v_select_i32(negative, -y, y);
    return v_select_i32(x == v_zero_i32(), v_zero_i32(), y);
}

#endif
