/* Lanes of 64 bits, CIRCLET_LANES of them in two registers: int64 elements, and the functions that
 * need the digits of double. Bounds are in units of the last place (ulp).
 */
#ifndef CIRCLET_WIDE_H
#define CIRCLET_WIDE_H

#include "vmath.h"

typedef CIRCLET_VECTOR(double, 2 * CIRCLET_VBYTES) wd;
typedef CIRCLET_VECTOR(int64_t, 2 * CIRCLET_VBYTES) wl;
typedef CIRCLET_VECTOR(uint64_t, 2 * CIRCLET_VBYTES) wl_unsigned;
typedef CIRCLET_UNALIGNED(int64_t, 2 * CIRCLET_VBYTES) wl_u;

/* Doubles are made of int32 and float alone: compilers for 32-bit CPUs would call a library for
 * 64-bit integers to and from float. */
CIRCLET_INLINE wd w_of_f32(vf x) { return __builtin_convertvector(x, wd); }
CIRCLET_INLINE wd w_of_i32(vi x) { return __builtin_convertvector(x, wd); }
CIRCLET_INLINE vf w_to_f32(wd x) { return __builtin_convertvector(x, vf); }
CIRCLET_INLINE vi w_to_i32(wd x) { return __builtin_convertvector(x, vi); }
CIRCLET_INLINE wd w_splat(double x) { return x - (wd){0}; }
CIRCLET_INLINE wd w_select(wl mask, wd a, wd b) {
    return (wd)((mask & (wl)a) | (~mask & (wl)b));
}
CIRCLET_INLINE wd w_abs(wd x) { return (wd)((wl)x & INT64_MAX); }
CIRCLET_INLINE wd w_limit(wd x, double most) {
    x = w_select((wl)(x < w_splat(-most)), w_splat(-most), x);
    return w_select((wl)(x > w_splat(most)), w_splat(most), x);
}

/* To the nearest integer, halves to even, where |x| < 2^51: 1.5 * 2^52 is added, from where on
 * doubles have no fraction bits. */
CIRCLET_INLINE wd w_round(wd x) {
    const wd shift = w_splat(6755399441055744.0);
    return (x + shift) - shift;
}
/* The same of sizes a, any: from 2^52 on they are whole numbers. */
CIRCLET_INLINE wd w_round_size(wd a) {
    const wd shift = w_splat(4503599627370496.0);
    return w_select((wl)(a < shift), (a + shift) - shift, a);
}
CIRCLET_INLINE wd w_trunc(wd x) {
    wd a = w_abs(x), t = w_round_size(a);
    t -= w_select((wl)(t > a), w_splat(1.0), w_splat(0.0));
    return (wd)((wl)t | ((wl)x & INT64_MIN));
}
CIRCLET_INLINE wd w_floor(wd x) {
    wd t = w_trunc(x);
    return t - w_select((wl)(t > x), w_splat(1.0), w_splat(0.0));
}

CIRCLET_INLINE wd w_polynomial(wd x, const double *coefficients, const int count) {
    wd y = w_splat(coefficients[count - 1]);
    CIRCLET_UNROLL for (int i = count - 2; i >= 0; i--) y = y * x + w_splat(coefficients[i]);
    return y;
}

/* Quarters of a turn in x, modulo 4, and the angle that is left, for 2^30 <= |x| < infinity.
 * Only the bits of 2 / pi that count for this exponent are multiplied (Payne and Hanek, 1983).
 */
static __attribute__((noinline, cold, unused)) int large_angle(float x, float *rest) {
    static const uint32_t two_by_pi[] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0,
                                         0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561};
    union { float f; uint32_t u; } bits = {x};
    uint64_t mantissa = (bits.u & 0x7FFFFF) | 0x800000;
    int start = (int)(bits.u >> 23 & 255) - 150 - 2;
    const uint32_t *word = two_by_pi + start / 32;
    uint64_t window[3];
    for (int i = 0; i < 3; i++) {
        uint64_t pair = (uint64_t)word[i] << 32 | word[i + 1];
        window[i] = (uint32_t)(pair >> (32 - start % 32));
    }
    uint64_t product = (mantissa * window[0] << 32) + mantissa * window[1] +
                       (mantissa * window[2] >> 32);
    int quarters = (int)((product + (1ull << 61)) >> 62);
    int64_t part = (int64_t)(product - ((uint64_t)quarters << 62));
    float angle = (float)((double)part * 3.4061215800865545e-19); /* pi / 2 / 2^62 */
    *rest = bits.u >> 31 ? -angle : angle;
    return bits.u >> 31 ? -quarters : quarters;
}

/* sin(x + quarter * pi / 2) for |x| <= WIDE_NEAR, 2e-7 of 1. r is x less whole half turns, pi in
 * two floats (Cody and Waite): the first difference is exact in FMA, and what both lack of pi is
 * below 4e-15. On |r| <= pi / 2 the polynomial is within 2e-8 of the sine. */
#define WIDE_NEAR 8192.0f
CIRCLET_INLINE vf near_sine(vf x, int quarter) {
    const vf shift = v_splat(V_WHOLE_SHIFT);
    vf shifted = v_fma(x, v_splat(0.318309886f), quarter ? v_splat(-0.5f) : v_zero()) + shift;
    vf turns = shifted - shift;
    if (quarter) turns += v_splat(0.5f);
    vf r = v_fma(turns, v_splat(-3.14159274f), x);
    r = v_fma(turns, v_splat(8.74227766e-8f), r);
    vf z = r * r;
    vf p = V_POLYNOMIAL(z, -0.1666666f, 0.008333066f, -0.00019809538f, 2.605631e-6f);
    vi sign = ((vi)shifted + quarter) << 31;
    return (vf)((vi)v_fma(r * z, p, r) ^ sign);
}

/* sin(x + quarter * pi / 2), 2e-7 of 1. Quarters of a turn, reduced in double up to 2^30 and by
 * 2 / pi's bits beyond; sine and cosine of |r| <= pi / 4 are within 2e-9, and n & 3 picks one
 * and its sign. */
CIRCLET_INLINE vf wide_sine(vf x, int quarter) {
    if (CIRCLET_HAS_FMA && CIRCLET_LIKELY(v_all((vi)(v_abs(x) <= v_splat(WIDE_NEAR)))))
        return near_sine(x, quarter);
    const float most = 1073741824.0f, infinity = __builtin_inff();
    wd wide = w_limit(w_of_f32(x), 3e9);
    wd turns = w_round(wide * w_splat(0.6366197723675814));
    wd rest = (wide - turns * w_splat(1.5707963267341256)) - turns * w_splat(6.077100506506192e-11);
    turns = w_select((wl)(turns == turns), turns, w_splat(0.0));
    vi n = w_to_i32(turns);
    vf r = w_to_f32(rest);
    vi large = (vi)(v_abs(x) > v_splat(most)) & (vi)(v_abs(x) < v_splat(infinity));
    if (v_fold_min_i32(large))
        for (int i = 0; i < CIRCLET_LANES; i++) {
            float angle = r[i];
            if (large[i]) n[i] = large_angle(x[i], &angle);
            r[i] = angle;
        }
    n += v_splat_i32(quarter);
    vf z = r * r;
    vf p = V_POLYNOMIAL(z, -0.16666667f, 0.0083333291f, -0.000198393056f, 2.71806425e-6f);
    vf q = V_POLYNOMIAL(z, 0.0416666456f, -0.00138873118f, 2.44325875e-5f);
    vf sine = v_fma(r * z, p, r);
    vf cosine = v_fma(z * z, q, v_fma(z, v_splat(-0.5f), v_splat(1.0f)));
    vf y = v_select((vi)((n & 1) == 0), sine, cosine);
    y = (vf)((vi)y ^ ((n & 2) << 30));
    return v_select((vi)(v_abs(x) < v_splat(infinity)), y, x - x);
}
CIRCLET_INLINE vf v_sin(vf x) {
    return v_select((vi)(x == v_zero()), x, wide_sine(x, 0));
}
CIRCLET_INLINE vf v_cos(vf x) { return wide_sine(x, 1); }

/* Angle of the point (x, y), 4 ulp: the arc tangent of the smaller over the larger size, at most 1,
 * where the odd polynomial is within 1e-8, then mirrored into the octant. */
CIRCLET_INLINE vf v_atan2(vf y, vf x) {
    const vf infinity = v_splat(__builtin_inff());
    vf a = v_abs(y), b = v_abs(x);
    vi steep = (vi)(a > b), equal = (vi)(a == b);
    vf small = v_select(steep, b, a), large = v_select(steep, a, b);
    vf t = small / v_select((vi)(large == v_zero()), v_splat(1.0f), large);
    t = v_select((vi)(large == infinity), v_zero(), t);
    t = v_select(equal & (vi)(a > v_zero()), v_splat(1.0f), t);
    vf z = t * t;
    vf p = V_POLYNOMIAL(z, -0.333332986f, 0.199985489f, -0.142642424f, 0.109521866f,
                        -0.0840345323f, 0.0579576455f, -0.0311778989f, 0.0109146358f,
                        -0.00179362879f);
    vf angle = v_fma(t * z, p, t);
    angle = v_select(steep, v_splat(1.57079637f) - angle, angle);
    angle = v_select((vi)x < 0, v_splat(3.14159274f) - angle, angle);
    angle = v_copysign(angle, y);
    return v_select((vi)(x == x) & (vi)(y == y), angle, x + y);
}

/* Natural logarithm of a positive finite number, to 2^-40 of it: 2 artanh(s), s = (m - 1) / (m +
 * 1), of the fraction m between sqrt(1/2) and sqrt(2); |s| < 0.172, and the first term left out
 * is 2 s^17 / 17. Powers need the digits of double: the error of ln x times y is the relative
 * error of x^y. */
CIRCLET_INLINE wd wide_log(wd a) {
    const int64_t root_half = 0x3fe6a09e667f3bcdll;
    wl bits = (wl)a - root_half;
    wd e = w_of_i32(__builtin_convertvector(bits >> 52, vi));
    wd m = (wd)((bits & 0xfffffffffffffll) + root_half);
    wd s = (m - w_splat(1.0)) / (m + w_splat(1.0)), z = s * s;
    static const double odd[] = {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                                 2.0 / 15};
    return s * w_polynomial(z, odd, 8) + e * w_splat(0.6931471805599453);
}

/* x to the power y, 2 ulp; the special values of C's pow. */
CIRCLET_INLINE vf v_pow_f32(vf x, vf y) {
    const vf infinity = v_splat(__builtin_inff()), one = v_splat(1.0f), none = v_zero();
    vf a = v_abs(x);
    vi plain = (vi)(a > none) & (vi)(a < infinity);
    wd power = w_of_f32(y) * wide_log(w_of_f32(v_select(plain, a, one)));
    vi upward = (vi)(a == infinity) ^ (vi)(y < none);
    wd far = w_of_f32(v_select(upward, infinity, -infinity));
    wd t = w_select(__builtin_convertvector(plain, wl), power, far);
    t = w_select(__builtin_convertvector((vi)(a == one) | (vi)(y == none), wl), w_splat(0.0), t);
    t = w_limit(w_select((wl)(t == t), t, w_splat(0.0)), 150.0);
    wd whole = w_round(t * w_splat(1.4426950408889634));
    vf r = w_to_f32(t - whole * w_splat(0.6931471805599453));
    vf q = V_POLYNOMIAL(r, 0.50000001f, 0.166665183f, 0.0416662042f, 0.00836895371f,
                        0.00139506003f);
    vi n = w_to_i32(whole), third = n / 3;
    vf result = (v_fma(r * r, q, r) + one) * v_power_of_two(third) * v_power_of_two(third);
    result *= v_power_of_two(n - third - third);
    vi whole_power = (vi)(v_trunc(y) == y);
    vi odd = whole_power & (vi)(v_abs(y) < v_splat(16777216.0f));
    odd &= -(v_to_i32(v_select(odd, y, none)) & 1);
    result = v_select(odd, v_copysign(result, x), result);
    vi undefined = (vi)(x < none) & (vi)(a < infinity) & ~whole_power;
    undefined |= (vi)(x != x) | (vi)(y != y);
    undefined &= (vi)(y != none) & (vi)(x != one);
    return v_select(undefined, v_splat(__builtin_nanf("")), result);
}

/* floor(x / y) of the quotient in double. */
CIRCLET_INLINE vf v_floor_div_f32(vf x, vf y) {
    return w_to_f32(w_floor(w_of_f32(x) / w_of_f32(y)));
}

/* The exact remainder with the sign of y: quotients of 28 bits at a time, from the largest power
 * of 2^28 down. A part times a quotient below 2^28 fits the 53 bits of a double (24 + 28), so
 * that every subtraction is exact; ten rounds span the 277 binades of floats. */
CIRCLET_INLINE vf v_floor_mod_f32(vf x, vf y) {
    wd rest = w_of_f32(v_abs(x)), step = w_of_f32(v_abs(y));
    for (int round = 9; round >= 0; round--) {
        double factor = 1.0;
        for (int i = 0; i < round; i++) factor *= 268435456.0;
        wd part = step * w_splat(factor);
        wl large = (wl)(rest >= part) & (wl)(rest < w_splat(1e39));
        if (CIRCLET_LIKELY(v_all(~__builtin_convertvector(large, vi)))) continue;
        wd less = rest - w_trunc(rest / part) * part;
        less = w_select((wl)(less < w_splat(0.0)), less + part, less);
        rest = w_select(large, less, rest);
    }
    vf r = v_copysign(w_to_f32(rest), x);
    vi opposite = ((vi)r ^ (vi)y) < 0;
    r = v_select((vi)(r != v_zero()) & opposite, r + y, r);
    vi valid = (vi)(v_abs(x) < v_splat(__builtin_inff())) & (vi)(y == y) & (vi)(y != v_zero());
    return v_select(valid, r, v_splat(__builtin_nanf("")));
}

/* Quotients of int32, 0 for a divisor of 0; the smallest number over -1 wraps. Vectors have no
 * integer division; a quotient that is no integer is at least 1 / y off one, far more than the
 * rounding error of doubles, so that truncating is exact. */
CIRCLET_INLINE vi v_div_trunc_i32(vi x, vi y) {
    vi minus = y == v_splat_i32(-1), none = y == v_zero_i32();
    vi divisor = v_select_i32(minus | none, v_splat_i32(1), y);
    vi q = w_to_i32(w_of_i32(x) / w_of_i32(divisor));
    return v_select_i32(minus, v_zero_i32() - x, q) & ~none;
}
CIRCLET_INLINE vi v_floor_div_i32(vi x, vi y) {
    vi q = v_div_trunc_i32(x, y), r = x - q * y, none = y == v_zero_i32();
    return q + ((r != v_zero_i32()) & ((r ^ y) < v_zero_i32()) & ~none);
}
CIRCLET_INLINE vi v_floor_mod_i32(vi x, vi y) {
    return (x - v_floor_div_i32(x, y) * y) & (y != v_zero_i32());
}

/* x to the power y, wrapping, by squaring; 0 for a negative y. */
CIRCLET_INLINE vi v_pow_i32(vi x, vi y) {
    vi result = v_splat_i32(1), left = y;
    CIRCLET_NO_UNROLL for (int bit = 0; bit < 31; bit++) {
        result = v_select_i32((left & 1) != v_zero_i32(), result * x, result);
        x = x * x, left = left >> 1;
    }
    return result & (y >= v_zero_i32());
}

/* int64 lanes. */
CIRCLET_INLINE wl v_splat_i64(int64_t x) { return x - (wl){0}; }
CIRCLET_INLINE wl v_to_i64(vi x) { return __builtin_convertvector(x, wl); }
CIRCLET_INLINE vi v_low_i32(wl x) { return __builtin_convertvector(x, vi); }
CIRCLET_INLINE wl v_select_i64(vi mask, wl a, wl b) {
    wl wide = v_to_i64(mask);
    return (wide & a) | (~wide & b);
}
CIRCLET_INLINE wl v_min_i64(wl a, wl b) {
    wl less = (wl)(a < b);
    return (less & a) | (~less & b);
}
CIRCLET_INLINE wl v_max_i64(wl a, wl b) {
    wl more = (wl)(a > b);
    return (more & a) | (~more & b);
}
CIRCLET_INLINE wl v_abs_i64(wl a) { return (a ^ (a >> 63)) - (a >> 63); }
CIRCLET_INLINE vi v_mask_i64(wl mask) { return v_low_i32(mask); }

CIRCLET_INLINE wl w_blend_i64(wl mask, wl a, wl b) { return (mask & a) | (~mask & b); }

/* Quotients of int64, 0 for a divisor of 0; the smallest number over -1 wraps. The quotient of the
 * doubles is off by its rounding; that of the rest by one at most, which the sign of what is left
 * tells. Divisors of 1 and -1, of which quotients may pass the range, have no part in it. */
CIRCLET_INLINE wl v_div_trunc_i64(wl x, wl y) {
    wl zero = v_splat_i64(0), one = v_splat_i64(1), none = (wl)(y == zero);
    wl unit = (wl)(y == one) | (wl)(y == -one), divisor = w_blend_i64(unit | none, v_splat_i64(2), y);
    wd real = __builtin_convertvector(divisor, wd);
    wl q = __builtin_convertvector(__builtin_convertvector(x, wd) / real, wl);
    q += __builtin_convertvector(__builtin_convertvector(x - q * divisor, wd) / real, wl);
    wl rest = x - q * divisor, side = (x ^ divisor) >> 63 | one;
    wl over = (wl)(rest != zero) & ((rest ^ x) >> 63);
    wl size = v_abs_i64(rest), by = v_abs_i64(divisor);
    wl under = ~over & (wl)((wl_unsigned)size >= (wl_unsigned)by);
    q += (side & under) - (side & over);
    return w_blend_i64(unit, w_blend_i64((wl)(y == one), x, zero - x), q) & ~none;
}
CIRCLET_INLINE wl v_floor_div_i64(wl x, wl y) {
    wl zero = v_splat_i64(0), q = v_div_trunc_i64(x, y), rest = x - q * y;
    return q + ((wl)(rest != zero) & ((rest ^ y) >> 63) & (wl)(y != zero));
}
CIRCLET_INLINE wl v_floor_mod_i64(wl x, wl y) {
    return (x - v_floor_div_i64(x, y) * y) & (wl)(y != v_splat_i64(0));
}

/* Doubles as elements; an extreme of two is NaN where one of them is. */
CIRCLET_INLINE vf v_to_f32_f64(wd x) { return w_to_f32(x); }
CIRCLET_INLINE vi v_mask_f64(wl mask) { return v_low_i32(mask); }
CIRCLET_INLINE wd v_select_f64(vi mask, wd a, wd b) { return w_select(v_to_i64(mask), a, b); }
CIRCLET_INLINE wd v_min_f64(wd a, wd b) { return w_select((wl)(a < b) | (wl)(a != a), a, b); }
CIRCLET_INLINE wd v_max_f64(wd a, wd b) { return w_select((wl)(a > b) | (wl)(a != a), a, b); }
CIRCLET_INLINE wd v_abs_f64(wd x) { return w_abs(x); }
CIRCLET_INLINE wd v_sqrt_f64(wd x) {
#if defined(__clang__)
    return __builtin_elementwise_sqrt(x);
#else
    wd r;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) r[i] = __builtin_sqrt(x[i]);
    return r;
#endif
}
CIRCLET_INLINE wd v_floor_f64(wd x) { return w_floor(x); }
CIRCLET_INLINE wd v_ceil_f64(wd x) { return -w_floor(-x); }
CIRCLET_INLINE wd v_round_even_f64(wd x) {
    return (wd)((wl)w_round_size(w_abs(x)) | ((wl)x & INT64_MIN));
}

CIRCLET_INLINE wl element_load_i64(const void *p, int64_t n) {
    if (n == CIRCLET_LANES) return *(const wl_u *)p;
    union { wl v; int64_t e[CIRCLET_LANES]; } u = {(wl){0}};
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < n; i++) u.e[i] = ((const int64_t *)p)[i];
    return u.v;
}
CIRCLET_INLINE void element_store_i64(void *p, wl x, int64_t n) {
    if (n == CIRCLET_LANES) {
        *(wl_u *)p = x;
        return;
    }
    union { wl v; int64_t e[CIRCLET_LANES]; } u = {x};
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < n; i++) ((int64_t *)p)[i] = u.e[i];
}
CIRCLET_INLINE wd element_load_f64(const void *p, int64_t n) { return (wd)element_load_i64(p, n); }
CIRCLET_INLINE void element_store_f64(void *p, wd x, int64_t n) {
    element_store_i64(p, (wl)x, n);
}

#endif
