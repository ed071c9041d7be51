/* Windows of conv_q8.h that are gathered in scratch, each as one run, for each tile.
 *
 * Rows of taps of few channels end within a group of four, and each row costs what a run costs
 * besides. Of a window of 3 x 3 taps and 3 channels:
 *
 *     three runs of 9       t0..3 t4..7 t5..8 | t9..12 t13..16 t14..17 | ...    nine groups
 *     one run of 27         t0..3 t4..7 t8..11 t12..15 t16..19 t20..23 t23..26  seven
 */
#ifndef CIRCLET_CONV_Q8_GATHER_H
#define CIRCLET_CONV_Q8_GATHER_H

#include "simd_int.h"

/* Copies so many neighbouring taps at once, top bits changed, perhaps widened. */
#define CONV_Q8_GATHER_PIECE(name, count)                                                         \
    CIRCLET_INLINE void conv_q8_gather_##name(void *to, const uint8_t *from, const int at,        \
                                              const uint8_t change, const int wide) {             \
        typedef CIRCLET_VECTOR(uint8_t, count) taps;                                              \
        typedef CIRCLET_UNALIGNED(uint8_t, count) taps_u;                                         \
        typedef CIRCLET_VECTOR(int16_t, 2 * count) wide_taps;                                     \
        typedef CIRCLET_UNALIGNED(int16_t, 2 * count) wide_taps_u;                                \
        taps x = *(const taps_u *)(from + at) ^ change;                                           \
        if (wide) *(wide_taps_u *)((int16_t *)to + at) = __builtin_convertvector(x, wide_taps);   \
        else *(taps_u *)((uint8_t *)to + at) = x;                                                 \
    }
CONV_Q8_GATHER_PIECE(eight, 8)
CONV_Q8_GATHER_PIECE(four, 4)
CONV_Q8_GATHER_PIECE(one, 1)

/* A row of taps, whose length is a constant; its last piece overlaps the one before. */
CIRCLET_INLINE void conv_q8_gather_row(void *to, const uint8_t *from, const int length,
                                       const uint8_t change, const int wide) {
    if (length >= 8) {
        CIRCLET_UNROLL for (int k = 0; k < length; k += 8)
            conv_q8_gather_eight(to, from, k + 8 > length ? length - 8 : k, change, wide);
    } else if (length >= 4) {
        CIRCLET_UNROLL for (int k = 0; k < length; k += 4)
            conv_q8_gather_four(to, from, k + 4 > length ? length - 4 : k, change, wide);
    } else {
        CIRCLET_UNROLL for (int k = 0; k < length; k++)
            conv_q8_gather_one(to, from, k, change, wide);
    }
}

/* The windows of a tile, gather_pixel elements apart. */
CIRCLET_INLINE void conv_q8_gather(const struct conv_q8_params *p, const uint8_t *in,
                                   uint8_t *scratch, const int pixels, const int length,
                                   const uint8_t change, const int wide) {
    const int64_t element = wide ? 2 : 1, pitch = p->gather_pixel * element;
    for (int y = 0; y < p->gather_rows; y++)
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
            conv_q8_gather_row(scratch + m * pitch + y * length * element,
                               in + m * p->in.pixel + y * p->flip_down, length, change, wide);
}

#endif
