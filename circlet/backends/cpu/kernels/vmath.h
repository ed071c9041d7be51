/* Elementary functions over float vectors, with measured bounds in units of the last place (ulp),
 * which tests/backends/cpu/test_float_vmath.py holds against double precision on every target.
 *
 * Each function reduces its argument to a short interval, where a polynomial is enough, and builds
 * the result from both. Polynomials are least-maximum (minimax) fits for the intervals named beside
 * them, unless called series; an error stated there is that of the polynomial alone, without the
 * roundings. One ulp is 2^-23 = 1.2e-7 of a result at most. Arguments that overflow give infinity
 * or zero as the real function does, and NaN gives NaN. Results below the smallest normal number
 * may lose precision; those of e^x are zero.
 */
#ifndef CIRCLET_VMATH_H
#define CIRCLET_VMATH_H

#include "simd.h"

/* coefficients[0] + x * (coefficients[1] + x * ...), by Horner's rule: the chain is long, but the
 * vectors of a loop are independent, and it needs the fewest operations. */
CIRCLET_INLINE vf v_polynomial(vf x, const float *coefficients, const int count) {
    vf y = v_splat(coefficients[count - 1]);
    CIRCLET_UNROLL for (int i = count - 2; i >= 0; i--)
        y = v_fma(y, x, v_splat(coefficients[i]));
    return y;
}
#define V_POLYNOMIAL(x, ...)                               \
    v_polynomial(x, (const float[]){__VA_ARGS__},          \
                 (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

/* e^x is zero below: results that are no normal numbers cost some processors a hundred cycles. */
#define V_EXP_LOWEST -87.3365f

/* 2^n for -126 <= n <= 127. */
CIRCLET_INLINE vf v_power_of_two(vi n) { return (vf)((n + 127) << 23); }

/* Whether all lanes of a mask are set. */
CIRCLET_INLINE int v_all(vi mask) {
#if defined(__clang__)
    return __builtin_reduce_and(mask) != 0;
#else
    int32_t all = -1;
    for (int i = 0; i < CIRCLET_LANES; i++) all &= mask[i];
    return all != 0;
#endif
}

/* 1 / by, or NaN where it or its error is no normal number. */
CIRCLET_INLINE vf v_inverse(vf by) {
    vi is_normal = (vi)(v_abs(by) > v_splat(0x1p-100f)) & (vi)(v_abs(by) < v_splat(0x1p100f));
    return v_select(is_normal, v_splat(1.0f) / by, v_splat(__builtin_nanf("")));
}

/* x / by, correctly rounded where x is no tiny number; `inverse` is 1 / by, rounded to nearest, or
 * NaN. One step of Markstein's method: the remainder of the near quotient is exact in FMA, and times
 * the inverse it corrects the last bit. Where that is NaN the quotient is divided. */
CIRCLET_INLINE vf v_divided(vf x, vf inverse, vf by) {
#if CIRCLET_HAS_FMA
    vf near = x * inverse, quotient = v_fma(v_fma(-near, by, x), inverse, near);
    if (CIRCLET_LIKELY(v_all((vi)(quotient == quotient)))) return quotient;
#else
    (void)inverse;
#endif
    return x / by;
}

#define V_WHOLE_SHIFT 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer */

#if CIRCLET_VBYTES == 64
/* value * 2^floor(exponent), rounded once. */
CIRCLET_INLINE vf v_scale(vf value, vf exponent) {
    return __builtin_ia32_scalefps512_mask(value, exponent, value, (unsigned short)-1, 4);
}

/* 2^(k / 16) by the low four bits of each lane of k. */
CIRCLET_INLINE vf v_sixteenth_powers(vi k) {
    typedef float plain __attribute__((vector_size(64)));
    typedef int32_t plain_i32 __attribute__((vector_size(64)));
    const plain powers = {1.0f,        1.04427378f, 1.09050773f, 1.13878863f,
                          1.18920712f, 1.24185781f, 1.29683955f, 1.35425555f,
                          1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                          1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f};
#if defined(__clang__)
    return (vf)__builtin_ia32_permvarsf512(powers, (plain_i32)k);
#else
    return (vf)__builtin_ia32_permvarsf512_mask(powers, (plain_i32)k, powers, (unsigned short)-1);
#endif
}

/* e^x, 2 ulp: 2^whole times a power from a table in a register, times a short series. x / ln 2 is
 * rounded to sixteenths, whose low four bits are the table's index; |r| <= ln 2 / 32, where 1 + r q
 * is within 1e-8 of e^r. */
CIRCLET_INLINE vf v_exp(vf x) {
    const vf shift = v_splat(786432.0f); /* 1.5 * 2^19: adding it rounds to sixteenths */
    const vi tiny = (vi)(x < v_splat(V_EXP_LOWEST));
    x = v_clamp(x, v_splat(V_EXP_LOWEST), v_splat(89.0f));
    vf shifted = v_fma(x, v_splat(1.44269504f), shift);
    vf whole = shifted - shift;
    /* ln 2 in two parts (Cody and Waite): the first has few enough bits to be exact times n. */
    vf r = v_fma(whole, v_splat(-0.693145752f), x);
    r = v_fma(whole, v_splat(-1.42860677e-6f), r);
    vf power = v_sixteenth_powers((vi)shifted);
    vf q = V_POLYNOMIAL(r, 1.0f, 0.5f, 0.166666672f);
    return v_select(tiny, v_zero(), v_scale(v_fma(r * power, q, power), whole));
}
#else
/* e^x, 2 ulp: 2^n times e^r, |r| <= ln 2 / 2, where 1 + r + r^2 q is within 5e-9 of it. 2^n goes in
 * two factors, as n may be 128, which no float's exponent holds. */
CIRCLET_INLINE vf v_exp(vf x) {
    const vf shift = v_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const vi tiny = (vi)(x < v_splat(V_EXP_LOWEST));
    x = v_clamp(x, v_splat(V_EXP_LOWEST), v_splat(89.0f));
    vf shifted = v_fma(x, v_splat(1.44269504f), shift);
    vi n = (vi)shifted - (vi)shift;
    vf whole = shifted - shift;
    /* ln 2 in two parts (Cody and Waite): the first has few enough bits to be exact times n. */
    vf r = v_fma(whole, v_splat(-0.693145752f), x);
    r = v_fma(whole, v_splat(-1.42860677e-6f), r);
    vf q = V_POLYNOMIAL(r, 0.50000001f, 0.166665183f, 0.0416662042f, 0.00836895371f,
                        0.00139506003f);
    vf y = v_fma(r * r, q, r) + v_splat(1.0f);
    vi half = n >> 1;
    return v_select(tiny, v_zero(), y * v_power_of_two(half) * v_power_of_two(n - half));
}
#endif

/* e^x where it is a normal number, 5 ulp: 2^n times e^r, |r| <= ln 2 / 2, where 1 + r q is within
 * 1e-7 of it. One constant for ln 2 leaves up to 2 ulp where n is large. */
CIRCLET_INLINE vf v_exp_normal(vf x) {
    const vf shift = v_splat(V_WHOLE_SHIFT), one = v_splat(1.0f);
    vf shifted = v_fma(x, v_splat(1.44269504f), shift);
#if CIRCLET_HAS_FMA
    vf r = v_fma(shifted - shift, v_splat(-0.693147182f), x);
#else /* the product must be exact, as in v_exp */
    vf r = v_fma(shifted - shift, v_splat(-0.693145752f), x);
    r = v_fma(shifted - shift, v_splat(-1.42860677e-6f), r);
#endif
    vf power = (vf)(((vi)shifted << 23) + (vi)one);
    vf q = V_POLYNOMIAL(r, 0.999999702f, 0.499991477f, 0.166676387f, 0.0418981612f, 0.00829027221f);
    return v_fma(r, q, one) * power;
}

/* e^x for x <= 0, 5 ulp: sums whose largest term is 1 do not see errors of those that are small.
 * Lanes too low for a normal number are computed in vain, and zero. */
CIRCLET_INLINE vf v_exp_falling(vf x) {
    return v_select((vi)(x < v_splat(V_EXP_LOWEST)), v_zero(), v_exp_normal(x));
}

#if CIRCLET_VBYTES == 64
/* The entry of a table by the low four bits of each lane of k. */
CIRCLET_INLINE vf v_entry(const float *table, vi k) {
    typedef float plain __attribute__((vector_size(64)));
    typedef int32_t plain_i32 __attribute__((vector_size(64)));
    plain entries = (plain)v_load(table);
#if defined(__clang__)
    return (vf)__builtin_ia32_permvarsf512(entries, (plain_i32)k);
#else
    return (vf)__builtin_ia32_permvarsf512_mask(entries, (plain_i32)k, entries, (unsigned short)-1);
#endif
}

/* The logarithm of what has none: -infinity of 0, infinity of infinity, else NaN. */
CIRCLET_INLINE vf v_log_odd(vf result, vf x) {
    typedef float plain __attribute__((vector_size(64)));
    typedef int32_t plain_i32 __attribute__((vector_size(64)));
    const plain_i32 table = (plain_i32)v_splat_i32(0x03530422);
    return (vf)__builtin_ia32_fixupimmps512_mask((plain)result, (plain)x, table, 0,
                                                 (unsigned short)-1, 4);
}

/* Natural logarithm, except of subnormal numbers, 3 ulp: ln 2 times the exponent, the logarithm
 * of the middle of the sixteenth that the fraction is in, from a table, and a short series of
 * the fraction over that middle, less 1: |f| <= 1/32, where the series is within 1e-9. Fractions
 * start at 0.703, so that 1 itself has the entry 1: logarithms near 0 come from the series
 * alone. */
CIRCLET_INLINE vf v_log_normal(vf x) {
    static const float inverses[] = {
        1.39130437f, 1.33333337f, 1.27999997f, 1.23076928f, 1.18518519f,  1.14285719f,
        1.10344827f, 1.06666672f, 1.03225803f, 1.0f,        0.941176474f, 0.888888896f,
        0.842105269f, 0.800000012f, 0.761904776f, 0.727272749f};
    static const float logarithms[] = {
        -0.33024171f,  -0.287682116f,  -0.246860057f, -0.207639396f, -0.169899046f, -0.133531436f,
        -0.098440066f, -0.0645385757f, -0.0317486674f, 0.0f,         0.0606246181f, 0.117783025f,
        0.171850249f,  0.223143533f,   0.271933705f,   0.318453699f};
    vi bits = (vi)x - 0x3f340000; /* 0.703125: 1 is within the tenth sixteenth */
    vf fraction = (vf)((bits & 0x7fffff) + 0x3f340000);
    vf f = v_fma(fraction, v_entry(inverses, bits >> 19), v_splat(-1.0f));
    vf q = V_POLYNOMIAL(f, -0.499999973f, 0.333497839f, -0.250175877f);
    vf whole = v_fma(v_to_f32(bits >> 23), v_splat(0.693147182f), v_entry(logarithms, bits >> 19));
    return v_log_odd(whole + v_fma(f * f, q, f), x);
}
#endif

/* Natural logarithm, 3 ulp; -infinity at 0, NaN below. The fraction is taken between sqrt(1/2) and
 * sqrt(2), so that small results do not cancel; f - f^2 / 2 + f^3 q is within 1e-9 of ln(1 + f).
 * Subnormal numbers are scaled by 2^23 first. */
CIRCLET_INLINE vf v_log(vf x) {
#if CIRCLET_VBYTES == 64
    if (CIRCLET_LIKELY(v_all((vi)((vu)((vi)x - 1) >= 0x7fffff)))) return v_log_normal(x);
#endif
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

/* e^x - 1 for x <= 0, 3 ulp: 2^n (e^r - 1) + (2^n - 1), where n is 0 near zero, so that nothing
 * cancels there. One constant for ln 2 is enough: where n is not 0, 2^n scales down what its
 * error does to e^r. */
CIRCLET_INLINE vf v_expm1_falling(vf x) {
    const vf shift = v_splat(V_WHOLE_SHIFT), one = v_splat(1.0f);
    x = v_max(v_splat(-30.0f), x); /* less gives -1 too; NaN stays NaN */
    vf shifted = v_fma(x, v_splat(1.44269504f), shift), whole = shifted - shift;
    vf r = v_fma(whole, v_splat(-0.693147182f), x);
    vf power = (vf)(((vi)shifted << 23) + (vi)one);
    vf q = V_POLYNOMIAL(r, 0.50000001f, 0.166665183f, 0.0416662042f, 0.00836895371f,
                        0.00139506003f);
    return v_fma(power, v_fma(r * r, q, r), power - one);
}

/* x / y, 2 ulp, where y and its reciprocal are normal numbers: divisions of 64 bytes keep a core's
 * units of arithmetic waiting, one step of Newton's from 14 bits does not. */
CIRCLET_INLINE vf v_ratio(vf x, vf y) {
#if CIRCLET_VBYTES == 64
    vf r = __builtin_ia32_rcp14ps512_mask(y, v_zero(), (unsigned short)-1);
    return x * v_fma(r, v_fma(-y, r, v_splat(1.0f)), r);
#else
    return x / y;
#endif
}

/* Hyperbolic tangent, 6 ulp: an odd rational function within 5e-8, from numerator and denominator
 * in x^2; beyond 9 the real function is within 4e-8 of 1, and the quotient is clamped to it. */
CIRCLET_INLINE vf v_tanh(vf x) {
    x = v_clamp(x, v_splat(-9.0f), v_splat(9.0f));
    vf z = x * x;
    vf p = V_POLYNOMIAL(z, 1.0f, 0.133810207f, 0.00349558308f, 2.06090008e-05f, 1.33545575e-08f);
    vf q = V_POLYNOMIAL(z, 1.0f, 0.467143357f, 0.0258769616f, 0.000328562659f, 7.77651394e-07f);
    return v_clamp(v_ratio(x * p, q), v_splat(-1.0f), v_splat(1.0f));
}

#if CIRCLET_VBYTES == 64
/* 2^(k / 16) for -2000 < k < 2000: the table's entries lack what k adds to their bits. */
CIRCLET_INLINE vf v_power_of_sixteenths(vi k) {
    typedef int32_t plain __attribute__((vector_size(64)));
    const plain powers = {0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3,
                            0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
                            0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                            0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
#if defined(__clang__)
    vi power = (vi)__builtin_ia32_permvarsi512(powers, (plain)k);
#else
    vi power = (vi)__builtin_ia32_permvarsi512_mask(powers, (plain)k, powers, (unsigned short)-1);
#endif
    return (vf)(power + (k << 19));
}

/* e^-x as v_exp computes it, within what 1 + e^-x needs: overflow does not occur. */
CIRCLET_INLINE vf v_logistic_power(vf x) {
    const vf shift = v_splat(786432.0f);
    x = v_min(v_splat(87.0f), x);
    vf shifted = v_fma(x, v_splat(-1.44269504f), shift);
    vf r = v_fma(shifted - shift, v_splat(-0.693147182f), -x);
    vf power = v_power_of_sixteenths((vi)shifted);
    vf q = V_POLYNOMIAL(r, 1.0f, 0.5f, 0.166666672f);
    return v_fma(r * power, q, power);
}
#else
CIRCLET_INLINE vf v_logistic_power(vf x) { return v_exp_normal(-v_min(v_splat(87.0f), x)); }
#endif

/* 1 / (1 + e^-x), 5 ulp; zero below -87.3, where e^x is. */
CIRCLET_INLINE vf v_logistic(vf x) {
    vf y = v_ratio(v_splat(1.0f), v_splat(1.0f) + v_logistic_power(x));
    return v_select((vi)(x < v_splat(V_EXP_LOWEST)), v_zero(), y);
}

/* Square root by the processor's instruction. */
CIRCLET_INLINE vf v_sqrt_divided(vf x) {
#if defined(__clang__)
    return __builtin_elementwise_sqrt(x);
#else
    vf r;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
#endif
}

#if CIRCLET_VBYTES == 64
/* 1 / sqrt(x) to 14 bits. */
CIRCLET_INLINE vf v_rsqrt_near(vf x) {
    return __builtin_ia32_rsqrt14ps512_mask(x, v_zero(), (unsigned short)-1);
}
#endif

/* Square root, rounded to nearest, from the approximate reciprocal root: one coupled step of
 * Goldschmidt's for root and half its reciprocal, then the remainder x - root^2, exact in FMA,
 * times the latter; only that last addition rounds. Zeros, infinities, NaN, negative numbers,
 * and those so small that the remainder may be subnormal, take the instruction. */
CIRCLET_INLINE vf v_sqrt(vf x) {
#if CIRCLET_VBYTES == 64
    const vi least = (vi)v_splat(0x1p-100f), count = (vi)v_splat(__builtin_inff()) - least;
    if (CIRCLET_LIKELY(v_all((vi)((vu)((vi)x - least) < (vu)count)))) {
        vf y = v_rsqrt_near(x), root = x * y, half = y * v_splat(0.5f);
        vf lack = v_fma(-root, half, v_splat(0.5f));
        root = v_fma(root, lack, root), half = v_fma(half, lack, half);
        return v_fma(v_fma(-root, root, x), half, root);
    }
#endif
    return v_sqrt_divided(x);
}

/* 1 / sqrt(x), 2 ulp: one step of Newton's, y + y (1 - x y^2) / 2, doubles the 14 bits. */
CIRCLET_INLINE vf v_rsqrt(vf x) {
#if CIRCLET_VBYTES == 64
    vf y = v_rsqrt_near(x);
    vf root = v_fma(y * v_fma(-(x * y), y, v_splat(1.0f)), v_splat(0.5f), y);
    return v_select((vi)(root == root), root, y); /* of 0 and infinity */
#else
    return v_splat(1.0f) / v_sqrt(x);
#endif
}

#if CIRCLET_VBYTES == 64
/* Error function, 6 ulp: its ratio to x is a polynomial in each quarter up to 4, within 4e-8;
 * the sixteen coefficients of each power stand side by side in a register, from which a
 * permutation picks each lane's. Larger arguments give 1, which the real function is within 2e-8
 * of. */
CIRCLET_INLINE vf v_erf(vf x) {
    static const float coefficients[][16] = {
        {1.12252963f, 1.07764506f, 0.997185409f, 0.896085799f, 0.789678454f, 0.689578235f,
         0.602119207f, 0.529061377f, 0.469339281f, 0.420722961f, 0.380874157f, 0.347809434f,
         0.319996834f, 0.296295762f, 0.275861979f, 0.258064508f},
        {-0.0232887361f, -0.0648615211f, -0.0934743509f, -0.106097355f, -0.104756549f,
         -0.0944033563f, -0.0802533776f, -0.0660687387f, -0.0537645258f, -0.0438648947f,
         -0.0361644067f, -0.0302190613f, -0.025594566f, -0.0219468903f, -0.0190248117f,
         -0.0166493002f},
        {-0.0228526443f, -0.0180309545f, -0.0103290537f, -0.00248318422f, 0.00338698807f,
         0.00651671318f, 0.0073171705f, 0.00671258708f, 0.00555396825f, 0.00436696969f,
         0.00337249343f, 0.00260960613f, 0.00204351684f, 0.00162489736f, 0.00131191663f,
         0.00107412657f},
        {0.000865269336f, 0.00223413901f, 0.00273975031f, 0.00236876309f, 0.00150359201f,
         0.00060989667f, -2.14651172e-05f, -0.000332990981f, -0.000410482025f, -0.000369348796f,
         -0.000292081328f, -0.000218757137f, -0.000161481643f, -0.000119934281f, -9.03965556e-05f,
         -6.92852409e-05f},
        {0.000414275011f, 0.000244915398f, 7.7357563e-06f, -0.000173437977f, -0.000235693267f,
         -0.00019702717f, -0.00011635432f, -4.4028915e-05f, -4.97524013e-07f, 1.70938347e-05f,
         1.96926048e-05f, 1.64567591e-05f, 1.22321171e-05f, 8.73242516e-06f, 6.21044501e-06f,
         4.47074626e-06f},
        {-1.89884722e-05f, -4.51192464e-05f, -4.53323446e-05f, -2.49065579e-05f, -6.34914443e-07f,
         1.40475013e-05f, 1.65033653e-05f, 1.17616664e-05f, 5.77436003e-06f, 1.63862785e-06f,
         -2.98452164e-07f, -8.43471639e-07f, -7.95662686e-07f, -5.98529823e-07f, -4.17373315e-07f,
         -2.86302566e-07f}};
    const vf shift = v_splat(12582912.0f), one = v_splat(1.0f);
    vf size = v_min(v_splat(3.9999f), v_abs(x)); /* NaN stays NaN */
    vf quarters = v_fma(size, v_splat(4.0f), v_splat(-0.5f));
    vf shifted = quarters + shift, t = quarters - (shifted - shift);
    vf y = v_entry(coefficients[5], (vi)shifted);
    CIRCLET_UNROLL for (int i = 4; i >= 0; i--)
        y = v_fma(y, t, v_entry(coefficients[i], (vi)shifted));
    return v_copysign(v_min(one, size * y), x);
}
#else
/* Error function, 6 ulp: an odd rational function within 6e-8; beyond 3.9 the real function is
 * within 4e-8 of 1, and the quotient is clamped to it. */
CIRCLET_INLINE vf v_erf(vf x) {
    x = v_clamp(x, v_splat(-3.9f), v_splat(3.9f));
    vf z = x * x;
    vf p = V_POLYNOMIAL(z, 1.12837911f, 0.189667121f, 0.0526681282f, 0.00373836048f,
                        0.000285062764f, 2.06647383e-06f);
    vf q = V_POLYNOMIAL(z, 1.0f, 0.501420915f, 0.113819085f, 0.0149143049f, 0.00115738017f,
                        3.82700564e-05f);
    return v_clamp(v_ratio(x * p, q), v_splat(-1.0f), v_splat(1.0f));
}
#endif

#endif
