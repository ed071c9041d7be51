/* Convolution in float32 in groups of few channels, each of as many filters: 2, 4 or 8, and fewer
 * than a register has lanes.
 *
 * A register of neighbouring channels holds several groups. Its lanes meet those whose numbers
 * differ from theirs by j (an exclusive or), which stay within a group, for every j below the
 * channels of one: so many multiply-adds of a tap are all that there are, and none is with a zero.
 *
 *     x        a0 a1 a2 a3 | b0 b1 b2 b3      weights  j = 0   a0 a1 a2 a3 of filters 0 1 2 3 | ...
 *     j = 1    a1 a0 a3 a2 | b1 b0 b3 b2               j = 1   a1 a0 a3 a2 of filters 0 1 2 3 | ...
 *
 * A tile is some neighbouring pixels of an output row by one register of channels; a column of the
 * input is shuffled once for all pixels of the tile whose windows it is in. A task is an output row.
 *
 * Operands: input, biases, weights per register of channels [row of taps, j / 4, column of taps,
 * j % 4, lanes], output, addend (or null). The last register overlaps the one before.
 */
#ifndef CIRCLET_CONV_GROUPS_F32_H
#define CIRCLET_CONV_GROUPS_F32_H

#include "simd.h"
#include "strides.h"

struct conv_groups_f32_params {
    struct image_strides in; /* of rows and pixels: between windows of outputs */
    struct image_strides out;
    struct image_strides add;
    int64_t tap_row;      /* input elements between rows of taps */
    int64_t tap_column;   /* and between columns */
    int32_t image_rows;   /* output rows of an image */
    int32_t row_pixels;   /* output pixels of a row, at least `pixels` */
    int32_t tap_rows;
    int32_t channels;     /* at least CIRCLET_LANES */
    int32_t add_channels; /* channels of the addend; it is zero for those behind */
    float low;            /* smallest result */
    float high;           /* largest result */
};

#define CONV_GROUPS_TOGETHER 4 /* shuffles of a column whose weights stay in registers */

/* Lanes whose numbers differ by n, less than 8, change places. */
CIRCLET_INLINE vf conv_groups_swap(vf x, const int n) {
    if (n & 1) x = CIRCLET_SWAP(x, 1);
    if (n & 2) x = CIRCLET_SWAP(x, 2);
#if CIRCLET_LANES >= 8
    if (n & 4) x = CIRCLET_SWAP(x, 4);
#endif
    return x;
}

CIRCLET_INLINE void conv_groups_tile(vf *acc, const struct conv_groups_f32_params *p,
                                     const float *in, const float *w, const int pixels,
                                     const int depth, const int columns, const int stride) {
    const int together = depth < CONV_GROUPS_TOGETHER ? depth : CONV_GROUPS_TOGETHER;
    for (int row = 0; row < p->tap_rows; row++, in += p->tap_row) {
        CIRCLET_UNROLL for (int first = 0; first < depth; first += together) {
            CIRCLET_UNROLL for (int i = 0; i < (pixels - 1) * stride + columns; i++) {
                vf x = conv_groups_swap(v_load(in + i * p->tap_column), first);
                CIRCLET_UNROLL for (int j = 0; j < together; j++) {
                    vf swapped = conv_groups_swap(x, j);
                    CIRCLET_UNROLL for (int tap = 0; tap < columns; tap++) {
                        const int place = i - tap;
                        if (place < 0 || place % stride || place / stride >= pixels) continue;
                        vf weights = v_load(w + (tap * together + j) * CIRCLET_LANES);
                        acc[place / stride] = v_fma(swapped, weights, acc[place / stride]);
                    }
                }
            }
            w += columns * together * CIRCLET_LANES;
        }
    }
}

/* `added` channels of the addend are there. */
CIRCLET_INLINE void conv_groups_store(const struct conv_groups_f32_params *p, float *to,
                                      const float *add, const vf *acc, int64_t added,
                                      const int pixels, const int adds) {
    vf low = v_splat(p->low), high = v_splat(p->high);
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        vf x = acc[m];
        if (adds && added >= CIRCLET_LANES) x = x + v_load(add + m * p->add.pixel);
        else if (adds && added > 0) x = x + v_load_n(add + m * p->add.pixel, added);
        v_store(to + m * p->out.pixel, v_clamp(x, low, high));
    }
}

/* pixels: Of a tile. depth: Channels of a group. columns, stride: Of taps, and of windows. */
CIRCLET_INLINE void conv_groups_f32(const struct conv_groups_f32_params *p, void *const *operands,
                                    void *scratch, int64_t begin, int64_t end, const int pixels,
                                    const int depth, const int columns, const int stride,
                                    const int adds) {
    (void)scratch;
    const int64_t block = (int64_t)p->tap_rows * columns * depth * CIRCLET_LANES;
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->image_rows, row = task % p->image_rows;
        const float *in = (const float *)operands[0] + strides_at(&p->in, image, row, 0);
        float *out = (float *)operands[3] + strides_at(&p->out, image, row, 0);
        const float *add = operands[4], *bias = operands[1], *w = operands[2];
        if (adds) add += strides_at(&p->add, image, row, 0);
        for (int64_t next = 0; next < p->channels; next += CIRCLET_LANES, w += block) {
            int64_t channel = s_min_i64(next, p->channels - CIRCLET_LANES);
            for (int64_t column = 0; column < p->row_pixels; column += pixels) {
                int64_t pixel = s_min_i64(column, p->row_pixels - pixels);
                vf acc[16];
                CIRCLET_UNROLL for (int m = 0; m < pixels; m++) acc[m] = v_load(bias + channel);
                conv_groups_tile(acc, p, in + pixel * p->in.pixel + channel, w, pixels, depth,
                                 columns, stride);
                conv_groups_store(p, out + pixel * p->out.pixel + channel,
                                  adds ? add + pixel * p->add.pixel + channel : add, acc,
                                  p->add_channels - channel, pixels, adds);
            }
        }
    }
}

#endif
