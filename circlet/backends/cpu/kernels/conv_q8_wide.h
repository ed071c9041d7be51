/* Sums of conv_q8.h by products of int16, two taps at a time (VPMADDWD), of weights that are packed as
 * int16 and of activations that are widened on their way into scratch: for weights that exceed the
 * bounds of conv_q8_pairs.h too often.
 */
#ifndef CIRCLET_CONV_Q8_WIDE_H
#define CIRCLET_CONV_Q8_WIDE_H

#include "simd_int.h"

/* Copies bytes as int16. */
CIRCLET_INLINE void conv_q8_widen_row(int16_t *to, const uint8_t *from, int64_t bytes,
                                      const uint8_t change) {
    typedef CIRCLET_VECTOR(uint8_t, CIRCLET_VBYTES / 2) part;
    typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES / 2) part_u;
    const int64_t last = bytes - CIRCLET_VBYTES / 2;
    for (int64_t i = 0; i <= last; i += CIRCLET_VBYTES / 2) {
        part x = *(const part_u *)(from + i) ^ change;
        *(vi16_u *)(to + i) = __builtin_convertvector(x, vi16);
    }
    int64_t i = bytes & -(CIRCLET_VBYTES / 2);
    if (i < bytes && last >= 0) {
        part x = *(const part_u *)(from + last) ^ change;
        *(vi16_u *)(to + last) = __builtin_convertvector(x, vi16);
    } else CIRCLET_NO_UNROLL for (; i < bytes; i++)
        to[i] = from[i] ^ change;
}

CIRCLET_INLINE void conv_q8_wide_step(vi *acc, const int16_t *at, int64_t in_pixel,
                                      const int8_t *w, const int pixels, const int vectors) {
    typedef CIRCLET_UNALIGNED(int32_t, 4) pair;
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        vi16 data = (vi16)v_splat_i32((*(const pair *)(at + m * in_pixel))[0]);
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            acc[m * vectors + n] += v_madd_i16(data, (vi16)v_load_i8(w + n * CIRCLET_VBYTES));
    }
}

/* Runs of an odd length end with their last two elements, the first of which counts nothing; behind
 * a run of one element lies more of the scratch. */
CIRCLET_INLINE void conv_q8_wide(vi *acc, const struct conv_q8_params *p, const int16_t *in,
                                 const int8_t *w, const int pixels, const int vectors,
                                 const int flip) {
    const int64_t in_pixel = p->in.pixel, length = p->run_bytes, step = vectors * CIRCLET_VBYTES;
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const int16_t *run = in + y * p->run_down + x * p->run_across;
            int64_t k = 0;
            for (; k + 4 <= length; k += 4, w += 2 * step) {
                conv_q8_fetch(w, 2 * step);
                conv_q8_wide_step(acc, run + k, in_pixel, w, pixels, vectors);
                conv_q8_wide_step(acc, run + k + 2, in_pixel, w + step, pixels, vectors);
            }
            for (; k < length; k += 2, w += step) {
                const int16_t *at = k + 2 > length && k ? run + length - 2 : run + k;
                conv_q8_wide_step(acc, at, in_pixel, w, pixels, vectors);
            }
        }
}

#endif
