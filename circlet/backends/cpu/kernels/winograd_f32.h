/* Convolution in float32 with a window of 3 x 3 and stride 1, by Winograd's F(4 x 4, 3 x 3).
 *
 * Input patches of 6 x 6 pixels and filters are evaluated at the points 0, +-sqrt(1/2), +-sqrt(2)
 * and infinity in both directions; there a convolution is one product per place, and 36 products
 * make 16 pixels. These points make rounding errors about twice those of a plain sum.
 *
 * A task takes `task_patches` patches: it transforms their input (36 planes of patches times
 * channels), multiplies each plane with its weights, and transforms the sums into pixels. The last
 * patch of a row or column overlaps the one before and stores only what that did not. Where weights
 * come from beyond the second-level cache, a task has one of `splits` parts of the filters, so that
 * they come once for many patches; each of these tasks transforms the input again. Groups of channels
 * are such parts too, with an input of their own.
 *
 * Operands: input, bias (whole vectors), packed weights, output, addend (or null). Weights are
 * packed per split, plane and block of NV * CIRCLET_LANES filters: one row of filters per channel.
 */
#ifndef CIRCLET_WINOGRAD_F32_H
#define CIRCLET_WINOGRAD_F32_H

#include "conv_f32.h"
#include "patches.h"

struct winograd_f32_params {
    struct image_strides in;
    struct image_strides out;
    struct image_strides add;
    int64_t in_plane;  /* elements between planes of transformed input */
    int64_t sum_plane; /* elements between planes of sums */
    int32_t width;     /* output pixels of a row, at least 4 */
    int32_t height;    /* output rows of an image, at least 4 */
    int32_t row_patches;   /* patches of a row */
    int32_t image_patches; /* patches of an image */
    int32_t patches;       /* patches of all images, at least MR */
    int32_t task_patches;  /* patches of a task, at least MR */
    int32_t channels;      /* input channels of a part, at least CIRCLET_LANES */
    int32_t blocks;        /* blocks of filters */
    int32_t splits;        /* parts of the blocks that are separate tasks */
    int32_t split_channels; /* input channels between those of two parts, which mostly share them */
    int32_t split_filters; /* filters of a part, where parts are groups; else 0 */
    int32_t filters;       /* filters that exist */
    int32_t add_channels;  /* channels of the addend; it is zero for those behind */
    float low;             /* smallest result */
    float high;            /* largest result */
};

#define WINOGRAD_ROOT 1.41421356237309504880f /* of 2 */
#define WINOGRAD_HALF 0.70710678118654752440f /* its half, the root of 1 / 2 */

/* Six input values to their values at the points. */
CIRCLET_INLINE void winograd_f32_input_1d(vf *y, const vf *x) {
    vf small = v_splat(WINOGRAD_HALF), large = v_splat(WINOGRAD_ROOT);
    vf outer = v_splat(-2.5f), two = v_splat(-2.0f), half = v_splat(-0.5f);
    vf even = v_fma(two, x[2], x[4]), odd = small * v_fma(two, x[1], x[3]);
    y[0] = v_fma(outer, x[2], x[0] + x[4]);
    y[1] = even + odd;
    y[2] = even - odd;
    even = v_fma(half, x[2], x[4]), odd = large * v_fma(half, x[1], x[3]);
    y[3] = even + odd;
    y[4] = even - odd;
    y[5] = v_fma(outer, x[3], x[1] + x[5]);
}

/* Values at the points to four results. */
CIRCLET_INLINE void winograd_f32_output_1d(vf *y, const vf *x) {
    vf small = v_splat(WINOGRAD_HALF), large = v_splat(WINOGRAD_ROOT);
    vf sum = x[1] + x[2], other_sum = x[3] + x[4];
    vf rest = small * (x[1] - x[2]), other_rest = large * (x[3] - x[4]);
    y[0] = x[0] + (sum + other_sum);
    y[1] = rest + other_rest;
    y[2] = v_fma(v_splat(2.0f), other_sum, v_splat(0.5f) * sum);
    y[3] = v_fma(v_splat(2.0f), other_rest, v_fma(v_splat(0.5f), rest, x[5]));
}

/* One vector of channels of a patch, to the same place of every plane. */
CIRCLET_INLINE void winograd_f32_input(const struct winograd_f32_params *p, const float *in,
                                       float *to) {
    vf half[6][6];
    CIRCLET_UNROLL for (int column = 0; column < 6; column++) {
        vf x[6], y[6];
        CIRCLET_UNROLL for (int row = 0; row < 6; row++)
            x[row] = v_load(in + row * p->in.row + column * p->in.pixel);
        winograd_f32_input_1d(y, x);
        CIRCLET_UNROLL for (int row = 0; row < 6; row++) half[row][column] = y[row];
    }
    CIRCLET_UNROLL for (int row = 0; row < 6; row++) {
        vf y[6];
        winograd_f32_input_1d(y, half[row]);
        CIRCLET_UNROLL for (int column = 0; column < 6; column++)
            v_store(to + (row * 6 + column) * p->in_plane, y[column]);
    }
}

struct winograd_f32_place {
    const float *in;
    float *out;
    const float *add;
    int64_t skip_rows, skip_columns; /* which the patch before has stored */
};

CIRCLET_INLINE struct winograd_f32_place winograd_f32_find(const struct winograd_f32_params *p,
                                                           void *const *operands, int64_t patch) {
    struct patch_place at =
        patch_at(patch, p->row_patches, p->image_patches, p->height, p->width);
    struct winograd_f32_place place;
    place.in = (const float *)operands[0] + strides_at(&p->in, at.image, at.row, at.column);
    place.out = (float *)operands[3] + strides_at(&p->out, at.image, at.row, at.column);
    place.add = (const float *)operands[4] + strides_at(&p->add, at.image, at.row, at.column);
    place.skip_rows = at.skip_rows;
    place.skip_columns = at.skip_columns;
    return place;
}

/* `left` of the lanes exist, `added` of the addend's. */
CIRCLET_INLINE void winograd_f32_store(const struct winograd_f32_params *p, float *to,
                                       const float *add, vf x, int64_t left, int64_t added,
                                       const int ADD) {
    vf low = v_splat(p->low), high = v_splat(p->high);
    if (ADD && added >= CIRCLET_LANES) x = x + v_load(add);
    else if (ADD && added > 0) x = x + v_load_n(add, added);
    if (CIRCLET_LIKELY(left >= CIRCLET_LANES)) v_store(to, v_clamp(x, low, high));
    else v_store_n(to, v_clamp(x, low, high), left);
}

/* One vector of filters of a patch, of which `left` exist and `added` have an addend: from the
 * planes of sums to pixels. */
CIRCLET_INLINE void winograd_f32_output(const struct winograd_f32_params *p, const float *sums,
                                       vf bias, const struct winograd_f32_place *place,
                                       int64_t filter, int64_t left, int64_t added,
                                       const int ADD) {
    vf half[4][6];
    CIRCLET_UNROLL for (int column = 0; column < 6; column++) {
        vf x[6], y[4];
        CIRCLET_UNROLL for (int row = 0; row < 6; row++)
            x[row] = v_load(sums + (row * 6 + column) * p->sum_plane);
        winograd_f32_output_1d(y, x);
        CIRCLET_UNROLL for (int row = 0; row < 4; row++) half[row][column] = y[row];
    }
    CIRCLET_UNROLL for (int row = 0; row < 4; row++) {
        if (row < place->skip_rows) continue;
        float *to = place->out + row * p->out.row + filter;
        const float *add = place->add + row * p->add.row + filter;
        vf y[4];
        winograd_f32_output_1d(y, half[row]);
        CIRCLET_UNROLL for (int column = 0; column < 4; column++)
            if (column >= place->skip_columns)
                winograd_f32_store(p, to + column * p->out.pixel, add + column * p->add.pixel,
                                   y[column] + bias, left, added, ADD);
    }
}

/* All planes of `count` patches times the weights of `blocks` blocks. */
CIRCLET_INLINE void winograd_f32_multiply(const struct winograd_f32_params *p, const float *in,
                                          const float *w, float *sums, int64_t count,
                                          int64_t blocks, const int MR, const int NV) {
    const int width = NV * CIRCLET_LANES;
    int64_t pixel = blocks * width;
    for (int plane = 0; plane < PATCH_PLANES; plane++) {
        for (int64_t block = 0; block < blocks; block++, w += p->channels * width) {
            for (int64_t next = 0; next < count; next += MR) {
                int64_t patch = s_min_i64(next, count - MR);
                float *to = sums + patch * pixel + block * width;
                vf acc[16][8];
                CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                    CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_zero();
                conv_f32_run(acc, in + patch * p->channels, p->channels, p->channels, w,
                             conv_f32_ahead(w, p->channels * width * 4, p->channels, next / MR),
                             MR, NV, 0);
                CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                    CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                        v_store(to + m * pixel + v * CIRCLET_LANES, acc[m][v]);
            }
        }
        in += p->in_plane, sums += p->sum_plane;
    }
}

/* Transforms the input of `count` patches, from a channel on. */
CIRCLET_INLINE void winograd_f32_enter(const struct winograd_f32_params *p, void *const *operands,
                                       float *planes, int64_t first, int64_t count, int64_t from) {
    for (int64_t patch = 0; patch < count; patch++) {
        const float *in = winograd_f32_find(p, operands, first + patch).in + from;
        float *to = planes + patch * p->channels;
        for (int64_t next = 0; next < p->channels; next += CIRCLET_LANES) {
            int64_t channel = s_min_i64(next, p->channels - CIRCLET_LANES);
            winograd_f32_input(p, in + channel, to + channel);
        }
    }
}

/* Operand 1 is the bias in whole vectors, operand 2 the weights. The last patches of all are never
 * fewer than MR: their tasks compute some of the tasks before again, to the same bits. */
CIRCLET_INLINE void winograd_f32(const struct winograd_f32_params *p, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int MR,
                                 const int NV, const int ADD) {
    const int64_t width = NV * CIRCLET_LANES;
    const float *bias = operands[1], *weights = operands[2];
    float *planes = scratch, *sums = planes + PATCH_PLANES * p->in_plane;
    for (int64_t task = begin; task < end; task++) {
        int64_t group = task / p->splits, split = task % p->splits;
        int64_t last = s_min_i64((group + 1) * p->task_patches, p->patches);
        int64_t first = s_min_i64(group * p->task_patches, last - MR), count = last - first;
        int64_t block = p->blocks * split / p->splits;
        int64_t blocks = p->blocks * (split + 1) / p->splits - block, pixel = blocks * width;
        winograd_f32_enter(p, operands, planes, first, count, split * p->split_channels);
        winograd_f32_multiply(p, planes, weights + block * PATCH_PLANES * p->channels * width, sums,
                              count, blocks, MR, NV);
        const float *own = bias + block * width;
        int64_t start = p->split_filters ? split * p->split_filters : block * width;
        int64_t most = p->split_filters ? p->split_filters : blocks * width;
        int64_t filters = s_min_i64(most, p->filters - start), added = p->add_channels - start;
        for (int64_t patch = 0; patch < count; patch++) {
            struct winograd_f32_place place = winograd_f32_find(p, operands, first + patch);
            place.out += start, place.add += start;
            const float *from = sums + patch * pixel;
            for (int64_t filter = 0; filter < filters; filter += CIRCLET_LANES)
                winograd_f32_output(p, from + filter, v_load(own + filter), &place, filter,
                                    filters - filter, s_min_i64(filters, added) - filter, ADD);
        }
    }
}

#endif
