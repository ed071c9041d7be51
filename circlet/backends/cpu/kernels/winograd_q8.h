/* Convolution of 8-bit images with a window of 3 x 3 and stride 1 by Winograd's F(4 x 4, 3 x 3),
 * exactly: patches of 6 x 6 pixels and filters are evaluated at the points 0, +-1, +-2 and infinity
 * in both directions, 36 products make 16 pixels.
 *
 * Values at points are int16: inputs of 8 bits grow by at most 10 * 10, filters by at most 12 * 12,
 * which the lowering checks. Products are int32 that may wrap, and so may all that follows, for
 * additions and multiplications are exact modulo 2^32. What comes out is 576 = 2^6 * 9 times the
 * sum s of a window. Times the inverse of 9 modulo 2^32 that is 2^6 * s modulo 2^32, and an
 * arithmetic shift by 6 gives s back wherever it is between -2^25 and 2^25.
 *
 * A task is `task_patches` patches by some vectors of filters; tasks of the same patches follow
 * each other, so that they are evaluated once. Input channels go by sixteens, the last of which may
 * overlap the ones before; there one of two weights is 0. The last patch of a row or column of
 * patches overlaps the one before and stores the same results.
 *
 * Operands: input, packed weights, qparams (requantize.h), output.
 */
#ifndef CIRCLET_WINOGRAD_Q8_H
#define CIRCLET_WINOGRAD_Q8_H

#include "patches.h"
#include "requantize.h"
#include "strides.h"

struct winograd_q8_params {
    struct image_strides in;
    struct image_strides out;
    int32_t width;         /* output pixels of a row, at least 4 */
    int32_t height;        /* output rows of an image, at least 4 */
    int32_t row_patches;   /* patches of a row */
    int32_t image_patches; /* patches of an image */
    int32_t patches;       /* patches of all images */
    int32_t task_patches;  /* patches of a task, a multiple of MR */
    int32_t channels;      /* input channels, at least 16 */
    int32_t depth;         /* sixteens of them */
    int32_t filters;       /* that exist */
    int32_t vectors;       /* of filters */
    int32_t splits;        /* parts of the vectors that are separate tasks */
    int32_t zero;          /* output zero point, less 128 for uint8 */
    int32_t out_flip;      /* 128 for uint8 outputs, else 0 */
    int32_t low;           /* least output less the zero point */
    int32_t high;          /* greatest output less the zero point */
};

#define WINOGRAD_Q8_DEPTH 16
/* The inverse of 9 modulo 2^32. */
#define WINOGRAD_Q8_NINTH 954437177u
#define WINOGRAD_Q8_SHIFT 6

typedef CIRCLET_VECTOR(int16_t, 32) winograd_q8_row;
typedef CIRCLET_UNALIGNED(int16_t, 32) winograd_q8_row_u;
typedef CIRCLET_UNALIGNED(int8_t, 16) winograd_q8_bytes;

struct winograd_q8_place {
    int64_t in, out;
};

/* Six input values to their values at the points. */
CIRCLET_INLINE void winograd_q8_input_1d(winograd_q8_row *y, const winograd_q8_row *x) {
    winograd_q8_row even = x[4] - x[2] * 4, odd = x[3] - x[1] * 4;
    y[1] = even + odd;
    y[2] = even - odd;
    even = x[4] - x[2], odd = (x[3] - x[1]) * 2;
    y[3] = even + odd;
    y[4] = even - odd;
    y[0] = (x[0] - x[2]) * 4 + even;
    y[5] = (x[5] - x[3]) - odd * 2;
}

/* Values at the points to 24 times four results. */
CIRCLET_INLINE void winograd_q8_output_1d(vu *y, const vu *x) {
    vu sum = x[1] + x[2], other_sum = x[3] + x[4];
    vu rest = x[1] - x[2], other_rest = (x[3] - x[4]) * 2;
    y[0] = x[0] + (sum + other_sum);
    y[1] = rest + other_rest;
    y[2] = sum + other_sum * 4;
    y[3] = rest + (other_rest + x[5]) * 4;
}

/* Sixteen channels of a patch at all points. */
CIRCLET_INLINE void winograd_q8_input(const struct winograd_q8_params *p, const int8_t *in,
                                      int16_t *to, const int flip) {
    winograd_q8_row half[6][6];
    const int8_t *rows[6];
    CIRCLET_UNROLL for (int row = 0; row < 6; row++) rows[row] = in + row * p->in.row;
    CIRCLET_UNROLL for (int column = 0; column < 6; column++) {
        winograd_q8_row x[6], y[6];
        CIRCLET_UNROLL for (int row = 0; row < 6; row++) {
            winograd_q8_bytes bytes =
                *(const winograd_q8_bytes *)(rows[row] + column * p->in.pixel);
            if (flip) bytes ^= -128;
            x[row] = __builtin_convertvector(bytes, winograd_q8_row);
        }
        winograd_q8_input_1d(y, x);
        CIRCLET_UNROLL for (int row = 0; row < 6; row++) half[row][column] = y[row];
    }
    CIRCLET_UNROLL for (int row = 0; row < 6; row++) {
        winograd_q8_row y[6];
        winograd_q8_input_1d(y, half[row]);
        CIRCLET_UNROLL for (int column = 0; column < 6; column++, to += WINOGRAD_Q8_DEPTH)
            *(winograd_q8_row_u *)to = y[column];
    }
}

/* Where the first pixels of patches are, found before they are wanted: divisions are slow. */
CIRCLET_INLINE void winograd_q8_find(const struct winograd_q8_params *p,
                                     struct winograd_q8_place *places, int64_t first,
                                     int64_t count) {
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i++) {
        struct patch_place at =
            patch_at(first + i, p->row_patches, p->image_patches, p->height, p->width);
        places[i].in = strides_at(&p->in, at.image, at.row, at.column);
        places[i].out = strides_at(&p->out, at.image, at.row, at.column);
    }
}

/* All planes of some patches times their weights, one vector of filters. Values are in tiles of MR
 * patches by sixteen channels by planes, weights in pairs of channels. */
CIRCLET_INLINE void winograd_q8_multiply(const struct winograd_q8_params *p, const int16_t *values,
                                         const int16_t *weights, int32_t *sums, int64_t count,
                                         const int MR) {
    const int patch_values = PATCH_PLANES * WINOGRAD_Q8_DEPTH, pairs = 2 * CIRCLET_LANES;
    const int patch_sums = PATCH_PLANES * CIRCLET_LANES;
    int64_t panel = (int64_t)p->depth * WINOGRAD_Q8_DEPTH * CIRCLET_LANES;
    int64_t tile = (int64_t)p->depth * MR * patch_values;
    for (int plane = 0; plane < PATCH_PLANES; plane++, weights += panel) {
        const int16_t *x = values + plane * WINOGRAD_Q8_DEPTH;
        int32_t *to = sums + plane * CIRCLET_LANES;
        for (int64_t patch = 0; patch < count; patch += MR, x += tile, to += MR * patch_sums) {
            vi acc[16];
            const int16_t *w = weights, *at = x;
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) acc[m] = v_zero_i32();
            for (int c = 0; c < p->depth; c++, at += MR * patch_values) {
                CIRCLET_UNROLL for (int k = 0; k < WINOGRAD_Q8_DEPTH; k += 2, w += pairs) {
                    vi16 row = *(const vi16_u *)w;
                    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                        acc[m] = v_dot2_splat(acc[m], at + m * patch_values + k, row);
                }
            }
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) v_store_i32(to + m * patch_sums, acc[m]);
        }
    }
}

/* The sum of a window of which `product` is 576 times as much. */
CIRCLET_INLINE vi winograd_q8_sum(vu product) {
    return (vi)(product * WINOGRAD_Q8_NINTH) >> WINOGRAD_Q8_SHIFT;
}

/* One vector of filters of a patch: from the planes of sums to pixels. What is added to the plane
 * of the points 1 and 1 is added to all pixels. */
CIRCLET_INLINE void winograd_q8_output(const struct winograd_q8_params *p, const int32_t *sums,
                                      const int32_t *qparam, uint8_t *out, int64_t left,
                                      const int form, const int tail) {
    const struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, form);
    const int is_affine = q8_is_affine(qparam, form);
    vi start = v_load_i32(qparam);
    vu half[4][6];
    CIRCLET_UNROLL for (int column = 0; column < 6; column++) {
        vu x[6], y[4];
        CIRCLET_UNROLL for (int row = 0; row < 6; row++)
            x[row] = (vu)v_load_i32(sums + (row * 6 + column) * CIRCLET_LANES);
        if (column == 1 && is_affine) x[1] += (vu)start;
        winograd_q8_output_1d(y, x);
        CIRCLET_UNROLL for (int row = 0; row < 4; row++) half[row][column] = y[row];
    }
    CIRCLET_UNROLL for (int row = 0; row < 4; row++) {
        vu y[4];
        vi acc[4];
        winograd_q8_output_1d(y, half[row]);
        CIRCLET_UNROLL for (int m = 0; m < 4; m++)
            acc[m] = is_affine ? (vi)v_to_f32((vi)y[m]) : (vi)(winograd_q8_sum(y[m]) + start);
        q8_finish_tile(out + row * p->out.row, p->out.pixel, acc, qparam, bounds, left, 4, 1, form,
                       tail);
    }
}

/* Values at points of the patches of a task. */
CIRCLET_INLINE void winograd_q8_inputs(const struct winograd_q8_params *p, const int8_t *in,
                                         int16_t *to, const struct winograd_q8_place *places,
                                         int64_t count, const int MR, const int flip) {
    const int patch_values = PATCH_PLANES * WINOGRAD_Q8_DEPTH;
    for (int64_t patch = 0; patch < count; patch++) {
        int64_t tile = patch / MR * p->depth * MR + patch % MR;
        for (int64_t c = 0; c < p->depth; c++) {
            int64_t channel = s_min_i64(c * WINOGRAD_Q8_DEPTH, p->channels - WINOGRAD_Q8_DEPTH);
            winograd_q8_input(p, in + places[patch].in + channel,
                              to + (tile + c * MR) * patch_values, flip);
        }
    }
}

/* MR: Patches of a tile.
 * form: How outputs are scaled (requantize.h).
 * flip: Whether the input is uint8.
 * tail: Whether the last vector of filters is not whole.
 */
CIRCLET_INLINE void winograd_q8(const struct winograd_q8_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int MR, const int form,
                                const int flip, const int tail) {
    int64_t depth = (int64_t)p->depth * WINOGRAD_Q8_DEPTH, ready = -1;
    int16_t *values = scratch;
    int32_t *sums = (int32_t *)(values + PATCH_PLANES * p->task_patches * depth);
    struct winograd_q8_place *places =
        (struct winograd_q8_place *)(sums + PATCH_PLANES * p->task_patches * CIRCLET_LANES);
    for (int64_t task = begin; task < end; task++) {
        int64_t group = task / p->splits, split = task % p->splits;
        int64_t first = group * p->task_patches;
        int64_t count = s_min_i64(p->task_patches, p->patches - first);
        if (group != ready) {
            winograd_q8_find(p, places, first, count);
            winograd_q8_inputs(p, x[0], values, places, count, MR, flip);
            ready = group;
        }
        int64_t last = (int64_t)p->vectors * (split + 1) / p->splits;
        for (int64_t n = (int64_t)p->vectors * split / p->splits; n < last; n++) {
            const int16_t *weights =
                (const int16_t *)x[1] + n * PATCH_PLANES * depth * CIRCLET_LANES;
            winograd_q8_multiply(p, values, weights, sums, count, MR);
            const int32_t *qparam = (const int32_t *)x[2] + n * Q8_QPARAM;
            uint8_t *out = (uint8_t *)x[3] + n * CIRCLET_LANES;
            for (int64_t i = 0; i < count; i++)
                winograd_q8_output(p, sums + i * PATCH_PLANES * CIRCLET_LANES, qparam,
                                  out + places[i].out, p->filters - n * CIRCLET_LANES, form, tail);
        }
    }
}

#endif
