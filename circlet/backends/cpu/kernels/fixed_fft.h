/* Fourier transforms of rows of 16- or 32-bit integers, bit for bit KISS FFT's in fixed point.
 *
 * A row of 2 n numbers is transformed as n complex ones, in stages of radix 2 to 5, each of which
 * divides its operands by the radix; sums wrap. Operands: source, the order in which elements are
 * loaded, the n-th roots of unity, the roots that part the two halves, result. A task is a row.
 */
#ifndef CIRCLET_FIXED_FFT_H
#define CIRCLET_FIXED_FFT_H

#include "simd.h"

struct fixed_fft_params {
    int64_t width;       /* elements of a row that are given; zeros follow */
    int64_t half;        /* n */
    int64_t stages;      /* how many */
    int64_t radices[16]; /* of the stages, the innermost first */
};

typedef struct fixed_complex {
    int64_t r, i;
} fixed_complex;

CIRCLET_INLINE int64_t fixed_wrap(int64_t x, const int bits) {
    return bits == 15 ? (int64_t)(int16_t)x : (int64_t)(int32_t)x;
}

CIRCLET_INLINE int64_t fixed_round(uint64_t product, const int bits) {
    return fixed_wrap((int64_t)(product + ((uint64_t)1 << (bits - 1))) >> bits, bits);
}

CIRCLET_INLINE int64_t fixed_scaled(int64_t x, int64_t factor, const int bits) {
    return fixed_round((uint64_t)x * (uint64_t)factor, bits);
}

CIRCLET_INLINE int64_t fixed_half(int64_t sum, const int bits) {
    return fixed_wrap((int64_t)(int32_t)sum >> 1, bits);
}

CIRCLET_INLINE fixed_complex fixed_add(fixed_complex a, fixed_complex b, const int bits) {
    return (fixed_complex){fixed_wrap(a.r + b.r, bits), fixed_wrap(a.i + b.i, bits)};
}

CIRCLET_INLINE fixed_complex fixed_sub(fixed_complex a, fixed_complex b, const int bits) {
    return (fixed_complex){fixed_wrap(a.r - b.r, bits), fixed_wrap(a.i - b.i, bits)};
}

CIRCLET_INLINE fixed_complex fixed_mul(fixed_complex a, const int32_t *b, const int bits) {
    uint64_t ar = (uint64_t)a.r, ai = (uint64_t)a.i;
    uint64_t br = (uint64_t)(int64_t)b[0], bi = (uint64_t)(int64_t)b[1];
    return (fixed_complex){fixed_round(ar * br - ai * bi, bits),
                           fixed_round(ar * bi + ai * br, bits)};
}

CIRCLET_INLINE fixed_complex fixed_divided(fixed_complex a, int64_t radix, const int bits) {
    int64_t factor = (((int64_t)1 << bits) - 1) / radix;
    return (fixed_complex){fixed_scaled(a.r, factor, bits), fixed_scaled(a.i, factor, bits)};
}

CIRCLET_INLINE void fixed_bfly3(fixed_complex *x, const int32_t *third, const int bits) {
    fixed_complex both = fixed_add(x[1], x[2], bits), apart = fixed_sub(x[1], x[2], bits);
    fixed_complex middle = {fixed_wrap(x[0].r - fixed_half(both.r, bits), bits),
                            fixed_wrap(x[0].i - fixed_half(both.i, bits), bits)};
    fixed_complex turned = {-fixed_scaled(apart.i, third[1], bits),
                            fixed_scaled(apart.r, third[1], bits)};
    x[0] = fixed_add(x[0], both, bits);
    x[1] = fixed_add(middle, turned, bits), x[2] = fixed_sub(middle, turned, bits);
}

CIRCLET_INLINE void fixed_bfly4(fixed_complex *x, int inverse, const int bits) {
    fixed_complex apart = fixed_sub(x[0], x[2], bits), even = fixed_add(x[0], x[2], bits);
    fixed_complex odd = fixed_add(x[1], x[3], bits), rest = fixed_sub(x[1], x[3], bits);
    fixed_complex turned = inverse ? (fixed_complex){-rest.i, rest.r}
                                   : (fixed_complex){rest.i, -rest.r};
    x[0] = fixed_add(even, odd, bits), x[2] = fixed_sub(even, odd, bits);
    x[1] = fixed_add(apart, turned, bits), x[3] = fixed_sub(apart, turned, bits);
}

/* One number plus two others times cosines. */
CIRCLET_INLINE int64_t fixed_sum5(int64_t x, int64_t a, int64_t b, const int32_t *first,
                                  const int32_t *second, const int bits) {
    return fixed_wrap(x + fixed_scaled(a, first[0], bits) + fixed_scaled(b, second[0], bits), bits);
}

CIRCLET_INLINE void fixed_bfly5(fixed_complex *x, const int32_t *one, const int32_t *two,
                                const int bits) {
    fixed_complex outer = fixed_add(x[1], x[4], bits), outer_apart = fixed_sub(x[1], x[4], bits);
    fixed_complex inner = fixed_add(x[2], x[3], bits), inner_apart = fixed_sub(x[2], x[3], bits);
    fixed_complex near = {fixed_sum5(x[0].r, outer.r, inner.r, one, two, bits),
                          fixed_sum5(x[0].i, outer.i, inner.i, one, two, bits)};
    fixed_complex far = {fixed_sum5(x[0].r, outer.r, inner.r, two, one, bits),
                         fixed_sum5(x[0].i, outer.i, inner.i, two, one, bits)};
    fixed_complex near_turn = {fixed_wrap(fixed_scaled(outer_apart.i, one[1], bits) +
                                              fixed_scaled(inner_apart.i, two[1], bits), bits),
                               fixed_wrap(-fixed_scaled(outer_apart.r, one[1], bits) -
                                              fixed_scaled(inner_apart.r, two[1], bits), bits)};
    fixed_complex far_turn = {fixed_wrap(-fixed_scaled(outer_apart.i, two[1], bits) +
                                             fixed_scaled(inner_apart.i, one[1], bits), bits),
                              fixed_wrap(fixed_scaled(outer_apart.r, two[1], bits) -
                                             fixed_scaled(inner_apart.r, one[1], bits), bits)};
    x[0] = fixed_add(x[0], fixed_add(outer, inner, bits), bits);
    x[1] = fixed_sub(near, near_turn, bits), x[4] = fixed_add(near, near_turn, bits);
    x[2] = fixed_add(far, far_turn, bits), x[3] = fixed_sub(far, far_turn, bits);
}

CIRCLET_INLINE void fixed_butterfly(const struct fixed_fft_params *p, fixed_complex *z, int64_t radix,
                                    int64_t inner, int64_t place, const int32_t *roots, int inverse,
                                    const int bits) {
    fixed_complex x[5];
    int64_t step = p->half / (radix * inner);
    for (int64_t q = 0; q < radix; q++) {
        x[q] = fixed_divided(z[q * inner], radix, bits);
        if (q) x[q] = fixed_mul(x[q], roots + 2 * (place * q * step), bits);
    }
    const int32_t *part = roots + 2 * (p->half / radix);
    if (radix == 4) fixed_bfly4(x, inverse, bits);
    if (radix == 3) fixed_bfly3(x, part, bits);
    if (radix == 5) fixed_bfly5(x, part, part + 2 * (p->half / radix), bits);
    if (radix == 2) {
        fixed_complex sum = fixed_add(x[0], x[1], bits);
        x[1] = fixed_sub(x[0], x[1], bits), x[0] = sum;
    }
    for (int64_t q = 0; q < radix; q++) z[q * inner] = x[q];
}

CIRCLET_INLINE void fixed_stages(const struct fixed_fft_params *p, fixed_complex *z,
                                 const int32_t *roots, int inverse, const int bits) {
    int64_t inner = 1;
    for (int64_t stage = 0; stage < p->stages; inner *= p->radices[stage], stage++) {
        int64_t radix = p->radices[stage];
        for (int64_t first = 0; first < p->half; first += radix * inner)
            for (int64_t u = 0; u < inner; u++)
                fixed_butterfly(p, z + first + u, radix, inner, u, roots, inverse, bits);
    }
}

CIRCLET_INLINE int64_t fixed_load(const void *x, int64_t index, const int bits) {
    return bits == 15 ? (int64_t)((const int16_t *)x)[index] : (int64_t)((const int32_t *)x)[index];
}

CIRCLET_INLINE void fixed_store(void *y, int64_t index, int64_t value, const int bits) {
    if (bits == 15)
        ((int16_t *)y)[index] = (int16_t)value;
    else
        ((int32_t *)y)[index] = (int32_t)value;
}

CIRCLET_INLINE void fixed_forward(const struct fixed_fft_params *p, const char *x, void *const *t,
                                  char *y, fixed_complex *z, const int bits) {
    const int32_t *order = t[1], *super = t[3];
    int64_t n = p->half;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 2 * order[k];
        z[k].r = at < p->width ? fixed_load(x, at, bits) : 0;
        z[k].i = at + 1 < p->width ? fixed_load(x, at + 1, bits) : 0;
    }
    fixed_stages(p, z, t[2], 0, bits);
    fixed_complex ends = fixed_divided(z[0], 2, bits);
    fixed_store(y, 0, ends.r + ends.i, bits), fixed_store(y, 1, 0, bits);
    fixed_store(y, 2 * n, ends.r - ends.i, bits), fixed_store(y, 2 * n + 1, 0, bits);
    for (int64_t k = 1; k <= n / 2; k++) {
        fixed_complex a = fixed_divided(z[k], 2, bits);
        fixed_complex mirrored = {z[n - k].r, fixed_wrap(-z[n - k].i, bits)};
        fixed_complex b = fixed_divided(mirrored, 2, bits), even = fixed_add(a, b, bits);
        fixed_complex turned = fixed_mul(fixed_sub(a, b, bits), super + 2 * (k - 1), bits);
        fixed_store(y, 2 * k, fixed_half(even.r + turned.r, bits), bits);
        fixed_store(y, 2 * k + 1, fixed_half(even.i + turned.i, bits), bits);
        fixed_store(y, 2 * (n - k), fixed_half(even.r - turned.r, bits), bits);
        fixed_store(y, 2 * (n - k) + 1, fixed_half(turned.i - even.i, bits), bits);
    }
}

CIRCLET_INLINE fixed_complex fixed_pair(const char *x, int64_t index, const int bits) {
    return (fixed_complex){fixed_load(x, 2 * index, bits), fixed_load(x, 2 * index + 1, bits)};
}

CIRCLET_INLINE void fixed_inverse(const struct fixed_fft_params *p, const char *x, void *const *t,
                                  char *y, fixed_complex *z, const int bits) {
    const int32_t *order = t[1], *super = t[3];
    int64_t n = p->half;
    fixed_complex *made = z + n;
    int64_t first = fixed_load(x, 0, bits), last = fixed_load(x, 2 * n, bits);
    fixed_complex ends = {fixed_wrap(first + last, bits), fixed_wrap(first - last, bits)};
    made[0] = fixed_divided(ends, 2, bits);
    for (int64_t k = 1; k <= n / 2; k++) {
        fixed_complex a = fixed_divided(fixed_pair(x, k, bits), 2, bits);
        fixed_complex mirrored = fixed_pair(x, n - k, bits);
        mirrored.i = fixed_wrap(-mirrored.i, bits);
        fixed_complex b = fixed_divided(mirrored, 2, bits), even = fixed_add(a, b, bits);
        fixed_complex turned = fixed_mul(fixed_sub(a, b, bits), super + 2 * (k - 1), bits);
        made[k] = fixed_add(even, turned, bits);
        fixed_complex rest = fixed_sub(even, turned, bits);
        made[n - k].r = rest.r, made[n - k].i = fixed_wrap(-rest.i, bits);
    }
    for (int64_t k = 0; k < n; k++) z[k] = made[order[k]];
    fixed_stages(p, z, t[2], 1, bits);
    for (int64_t k = 0; k < n; k++)
        fixed_store(y, 2 * k, z[k].r, bits), fixed_store(y, 2 * k + 1, z[k].i, bits);
}

CIRCLET_INLINE void fixed_fft(const struct fixed_fft_params *p, void *const *operands, void *scratch,
                              int64_t begin, int64_t end, const int bits, const int inverse) {
    int64_t size = bits == 15 ? 2 : 4, made = 2 * p->half + (inverse ? 0 : 2);
    for (int64_t row = begin; row < end; row++) {
        const char *x = (const char *)operands[0] + row * p->width * size;
        char *y = (char *)operands[4] + row * made * size;
        if (inverse)
            fixed_inverse(p, x, operands, y, scratch, bits);
        else
            fixed_forward(p, x, operands, y, scratch, bits);
    }
}

#endif
