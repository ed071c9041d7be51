/* Elementary functions over float vectors, with measured bounds in units of the last place (ulp).
 *
 * Polynomials are least-maximum fits; arguments that overflow give infinity or zero as the real
 * function does, and NaN gives NaN. Results below the smallest normal number may lose precision.
 */
#ifndef CIRCLET_VMATH_H
#define CIRCLET_VMATH_H

#include "simd.h"

/* coefficients[0] + x * (coefficients[1] + x * ...) */
CIRCLET_INLINE vf v_polynomial(vf x, const float *coefficients, const int count) {
    vf y = v_splat(coefficients[count - 1]);
    CIRCLET_UNROLL for (int i = count - 2; i >= 0; i--)
        y = v_fma(y, x, v_splat(coefficients[i]));
    return y;
}
#define V_POLYNOMIAL(x, ...)                               \
    v_polynomial(x, (const float[]){__VA_ARGS__},          \
                 (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

/* 2^n for -126 <= n <= 127. */
CIRCLET_INLINE vf v_power_of_two(vi n) { return (vf)((n + 127) << 23); }

/* e^x, 2 ulp. */
CIRCLET_INLINE vf v_exp(vf x) {
    const vf shift = v_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    x = v_clamp(x, v_splat(-104.0f), v_splat(89.0f));
    vf shifted = v_fma(x, v_splat(1.44269504f), shift);
    vi n = (vi)shifted - (vi)shift;
    vf whole = shifted - shift;
    vf r = v_fma(whole, v_splat(-0.693145752f), x); /* ln 2 in two parts, the first exact times n */
    r = v_fma(whole, v_splat(-1.42860677e-6f), r);
    vf q = V_POLYNOMIAL(r, 0.50000001f, 0.166665183f, 0.0416662042f, 0.00836895371f,
                        0.00139506003f);
    vf y = v_fma(r * r, q, r) + v_splat(1.0f);
    vi half = n >> 1;
    return y * v_power_of_two(half) * v_power_of_two(n - half);
}

/* Natural logarithm, 2 ulp; -infinity at 0, NaN below. */
CIRCLET_INLINE vf v_log(vf x) {
    vi tiny = (vi)(x < v_splat(1.17549435e-38f));
    vf y = v_select(tiny, x * v_splat(8388608.0f), x);
    vi bits = (vi)y - 0x3f3504f3; /* sqrt(1/2): the fraction is within it and sqrt(2) */
    vi exponent = (bits >> 23) - (tiny & 23);
    vf f = (vf)((bits & 0x7fffff) + 0x3f3504f3) - v_splat(1.0f);
    vf e = v_to_f32(exponent);
    vf q = V_POLYNOMIAL(f, 0.333333124f, -0.250000096f, 0.200021337f, -0.166680067f, 0.142192229f,
                        -0.124051381f, 0.11890336f, -0.11679643f, 0.0674655942f);
    vf square = f * f;
    vf small = v_fma(square * f, q, e * v_splat(1.42860677e-6f));
    small = v_fma(square, v_splat(-0.5f), small);
    vf result = v_fma(e, v_splat(0.693145752f), f + small);
    vf infinity = v_splat(__builtin_inff());
    result = v_select((vi)(x < infinity), result, x); /* infinity and NaN */
    result = v_select((vi)(x == v_zero()), -infinity, result);
    return v_select((vi)(x < v_zero()), v_splat(__builtin_nanf("")), result);
}

/* Hyperbolic tangent, 2 ulp. */
CIRCLET_INLINE vf v_tanh(vf x) {
    vf a = v_abs(x), z = x * x;
    vf q = V_POLYNOMIAL(z, -0.333333309f, 0.133332098f, -0.0539472043f, 0.0217029671f,
                        -0.00818267385f, 0.00214753686f);
    vf near = v_fma(x * z, q, x);
    vf e = v_exp(a + a) + v_splat(1.0f);
    vf far = v_copysign(v_splat(1.0f) - v_splat(2.0f) / e, x);
    vf result = v_select((vi)(a < v_splat(0.625f)), near, far);
    return v_select((vi)(x == x), result, x);
}

/* 1 / (1 + e^-x), 3 ulp above -87. */
CIRCLET_INLINE vf v_logistic(vf x) {
    return v_splat(1.0f) / (v_splat(1.0f) + v_exp(-x));
}

/* Square root, rounded to nearest. */
CIRCLET_INLINE vf v_sqrt(vf x) {
#if defined(__clang__)
    return __builtin_elementwise_sqrt(x);
#else
    vf r;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
#endif
}

/* 1 / sqrt(x), 2 ulp. */
CIRCLET_INLINE vf v_rsqrt(vf x) { return v_splat(1.0f) / v_sqrt(x); }

/* Error function, 3 ulp: an odd polynomial up to 1, then 1 - e^p where p fits ln(erfc). */
CIRCLET_INLINE vf v_erf(vf x) {
    vf a = v_abs(x), z = x * x;
    vf q = V_POLYNOMIAL(z, 1.12837917f, -0.376126385f, 0.112837827f, -0.0268654458f,
                        0.00522107486f, -0.000848471119f, 0.000112705427f, -9.68013174e-06f);
    vf bounded = v_min(a, v_splat(4.0f));
    vf p = V_POLYNOMIAL(bounded, 0.000291491673f, -1.13010583f, -0.632067233f, -0.109827896f,
                        0.0262618216f, -0.00469739217f, 0.000582149228f, -4.41515469e-05f,
                        1.53218761e-06f);
    vf far = v_copysign(v_splat(1.0f) - v_exp(p), x);
    vf result = v_select((vi)(a < v_splat(1.0f)), x * q, far);
    return v_select((vi)(x == x), result, x);
}

#endif
