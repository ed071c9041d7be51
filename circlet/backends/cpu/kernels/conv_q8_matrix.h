/* Sums of conv_q8.h by products of matrices (SMMLA, USMMLA): two pixels by two channels by eight
 * taps, twice the products of a dot product. Sums then are [pixel][channel] within a register:
 *
 *     p0c0 p0c1 p1c0 p1c1    and are transposed from and to rows of channels once per tile.
 */
#ifndef CIRCLET_CONV_Q8_MATRIX_H
#define CIRCLET_CONV_Q8_MATRIX_H

#include "simd_int.h"

#if defined(__ARM_FEATURE_MATMUL_INT8)

/* Four sums, [pixel][channel], + data, [pixel][8], times weights, [channel][8]. */
CIRCLET_INLINE vi conv_q8_matrix_dot(vi acc, vl data, vi8 weights, const int is_unsigned) {
    if (is_unsigned) __asm__("usmmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(data), "w"(weights));
    else __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(data), "w"(weights));
    return acc;
}

/* Two pixels of four channels, and two pixels of two and of two channels: either from the other. */
CIRCLET_INLINE void conv_q8_matrix_transpose(vi *a, vi *b) {
    vi first = __builtin_shufflevector(*a, *b, 0, 1, 4, 5);
    *b = __builtin_shufflevector(*a, *b, 2, 3, 6, 7);
    *a = first;
}

CIRCLET_INLINE int64_t conv_q8_matrix_bytes(const uint8_t *p) {
    int64_t x;
    __builtin_memcpy(&x, p, 8);
    return x;
}

/* Eight bytes of each pixel; `sums` is [pixels, rounded up to an even number][vectors]. */
CIRCLET_INLINE void conv_q8_matrix_step(vi *sums, const uint8_t *at, int64_t in_pixel,
                                        const int8_t *w, const int pixels, const int vectors,
                                        const int is_unsigned) {
    vl data[8];
    CIRCLET_UNROLL for (int m = 0; m < pixels; m += 2) {
        const uint8_t *p = at + m * in_pixel, *next = m + 1 < pixels ? p + in_pixel : p;
        data[m / 2] = (vl){conv_q8_matrix_bytes(p), conv_q8_matrix_bytes(next)};
    }
    CIRCLET_UNROLL for (int n = 0; n < 2 * vectors; n++) {
        vi8 weights = v_load_i8(w + n * CIRCLET_VBYTES);
        CIRCLET_UNROLL for (int m = 0; m < pixels; m += 2) {
            vi *sum = &sums[(m + n % 2) * vectors + n / 2];
            *sum = conv_q8_matrix_dot(*sum, data[m / 2], weights, is_unsigned);
        }
    }
}

/* Runs of at least eight bytes; `acc` is [pixels][vectors]. */
CIRCLET_INLINE void conv_q8_matrix(vi *acc, const struct conv_q8_params *p, const uint8_t *in,
                                   const int8_t *w, const int pixels, const int vectors,
                                   const int flip) {
    const int is_unsigned = flip & CONV_Q8_UNSIGNED;
    const int64_t whole = p->run_bytes & ~7, step = 2 * vectors * CIRCLET_VBYTES;
    vi sums[32];
    CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++) sums[i] = acc[i];
    if (pixels % 2)
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            sums[pixels * vectors + n] = acc[(pixels - 1) * vectors + n];
    CIRCLET_UNROLL for (int m = 0; m < pixels; m += 2)
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            conv_q8_matrix_transpose(&sums[m * vectors + n], &sums[(m + 1) * vectors + n]);
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const uint8_t *run = in + y * p->run_down + x * p->run_across;
            CIRCLET_NO_UNROLL for (int64_t k = 0; k < whole; k += 8, w += step)
                conv_q8_matrix_step(sums, run + k, p->in.pixel, w, pixels, vectors, is_unsigned);
            if (whole == p->run_bytes) continue;
            conv_q8_matrix_step(sums, run + p->run_bytes - 8, p->in.pixel, w, pixels, vectors,
                                is_unsigned);
            w += step;
        }
    CIRCLET_UNROLL for (int m = 0; m < pixels; m += 2)
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            conv_q8_matrix_transpose(&sums[m * vectors + n], &sums[(m + 1) * vectors + n]);
    CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++) acc[i] = sums[i];
}

#endif
#endif
