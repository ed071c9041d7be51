/* Float weights that are computed once, packed as winograd_f32.h reads constant ones: biases in
 * whole blocks, then per plane and block of `width` filters a row of filters for each channel.
 *
 * A filter of 3 x 3 is evaluated at the points in both directions, in double precision, as constant
 * ones are. A task is a piece of the channels of one block.
 */
#ifndef CIRCLET_PACK_WINOGRAD_F32_H
#define CIRCLET_PACK_WINOGRAD_F32_H

#include "pack_conv_f32.h"
#include "patches.h"

struct pack_winograd_f32_params {
    int64_t filter;     /* elements between filters */
    int64_t tap_row;    /* between rows of the window */
    int64_t tap_column; /* between columns of the window */
    int64_t channel;    /* between channels */
    int64_t channels;   /* of a filter */
    int64_t piece;      /* channels that a task packs */
    int64_t blocks;     /* blocks of filters */
    int64_t filters;    /* that exist */
    double points[18];  /* what each of three taps adds at each of six points */
};

/* Three values to those at the six points, of as many filters as vectors have lanes. */
CIRCLET_INLINE void pack_winograd_f32_1d(double y[6][CIRCLET_LANES], const double *points,
                                         const double *a, const double *b, const double *c) {
    for (int point = 0; point < 6; point++, points += 3)
        for (int n = 0; n < CIRCLET_LANES; n++)
            y[point][n] = points[0] * a[n] + points[1] * b[n] + points[2] * c[n];
}

/* One channel of `count` filters, at most as many as vectors have lanes; the others are zero. */
CIRCLET_INLINE void pack_winograd_f32_channel(const struct pack_winograd_f32_params *p, float *to,
                                              int64_t plane, const float *from, int64_t count) {
    double taps[3][3][CIRCLET_LANES] = {0}, half[3][6][CIRCLET_LANES], whole[6][CIRCLET_LANES];
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 3; column++)
            CIRCLET_NO_UNROLL for (int64_t n = 0; n < count; n++)
                taps[row][column][n] =
                    from[n * p->filter + row * p->tap_row + column * p->tap_column];
    for (int column = 0; column < 3; column++)
        pack_winograd_f32_1d(half[column], p->points, taps[0][column], taps[1][column],
                             taps[2][column]);
    for (int row = 0; row < 6; row++) {
        pack_winograd_f32_1d(whole, p->points, half[0][row], half[1][row], half[2][row]);
        for (int column = 0; column < 6; column++)
            for (int n = 0; n < CIRCLET_LANES; n++)
                to[(row * 6 + column) * plane + n] = (float)whole[column][n];
    }
}

/* Operands: weights, biases (or null), result. */
CIRCLET_INLINE void pack_winograd_f32(const struct pack_winograd_f32_params *p,
                                      void *const *operands, void *scratch, int64_t begin,
                                      int64_t end, const int width) {
    int64_t pieces = (p->channels + p->piece - 1) / p->piece;
    int64_t plane = p->blocks * p->channels * width;
    float *biases = operands[2], *planes = biases + p->blocks * width;
    const float *bias = operands[1];
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t block = task / pieces, first = task % pieces * p->piece, filter = block * width;
        int64_t last = s_min_i64(first + p->piece, p->channels), count = p->filters - filter;
        if (first == 0)
            pack_conv_f32_bias(biases + filter, bias ? bias + filter : 0,
                               s_min_i64(count, width), width);
        for (int64_t channel = first; channel < last; channel++) {
            const float *from = (const float *)operands[0] + filter * p->filter;
            float *to = planes + (block * p->channels + channel) * width;
            for (int n = 0; n < width; n += CIRCLET_LANES)
                pack_winograd_f32_channel(p, to + n, plane,
                                          from + n * p->filter + channel * p->channel,
                                          s_max_i64(s_min_i64(count - n, CIRCLET_LANES), 0));
        }
    }
}

#endif
