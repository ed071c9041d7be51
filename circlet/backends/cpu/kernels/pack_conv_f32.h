/* Float weights that are computed at run time, packed as conv_f32.h and depthwise_f32.h read
 * constant ones: per block of `width` filters the biases, then a row of filters for each element
 * of a tap.
 *
 *              filters of the block            -> width
 *     row 0    b0 b1 b2 ... 0                  biases; filters that are missing are zero
 *     row 1    w0[0] w1[0] w2[0] ... 0         element 0 of the first tap
 *     row 2    w0[1] w1[1] w2[1] ... 0
 *
 * A task is a piece of one tap of one block, so that few blocks still occupy all threads.
 */
#ifndef CIRCLET_PACK_CONV_F32_H
#define CIRCLET_PACK_CONV_F32_H

#include "pack_f32.h"

struct pack_conv_f32_params {
    int64_t group;    /* elements between the first filters of groups */
    int64_t filter;   /* between filters */
    int64_t tap_row;  /* between rows of the window */
    int64_t tap_run;  /* between runs of a row of the window */
    int64_t element;  /* between elements of a run; this or `filter` is 1 */
    int64_t tap_rows; /* rows of the window */
    int64_t tap_runs; /* runs in a row of the window */
    int64_t run;      /* elements of a run */
    int64_t piece;    /* elements of a run that a task packs */
    int64_t blocks;   /* blocks of filters of a group */
    int64_t filters;  /* filters of a group */
    int64_t last;     /* the last block starts here at the latest */
};

CIRCLET_INLINE void pack_conv_f32_bias(float *to, const float *bias, int64_t count,
                                       const int width) {
    if (bias) pack_f32_rows(to, bias, 1, 0, count, width);
    else CIRCLET_NO_UNROLL for (int n = 0; n < width; n++) to[n] = 0;
}

/* Operands: weights, biases (or null), result. */
CIRCLET_INLINE void pack_conv_f32(const struct pack_conv_f32_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end, const int width) {
    int64_t pieces = s_max_i64((p->run + p->piece - 1) / p->piece, 1);
    int64_t taps = p->tap_rows * p->tap_runs;
    const float *bias = operands[1];
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t block = task / (taps * pieces), tap = task / pieces % taps;
        int64_t from = task % pieces * p->piece, group = block / p->blocks;
        int64_t first = s_min_i64(block % p->blocks * width, p->last);
        int64_t count = s_min_i64(p->filters - first, width);
        float *to = (float *)operands[2] + block * (taps * p->run + 1) * width;
        if (tap + from == 0)
            pack_conv_f32_bias(to, bias ? bias + group * p->filters + first : 0, count, width);
        const float *y = (const float *)operands[0] + group * p->group + first * p->filter +
                         tap / p->tap_runs * p->tap_row + tap % p->tap_runs * p->tap_run +
                         from * p->element;
        pack_f32(to + (1 + tap * p->run + from) * width, y, s_min_i64(p->run - from, p->piece),
                 p->element, p->filter, count, width);
    }
}

#endif
