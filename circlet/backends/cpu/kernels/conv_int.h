/* Convolutions of int16 images with int8 weights: depthwise and transposed.
 *
 * Output row y and tap row k meet input row (y * step + k * tap + first) / up where that is whole
 * and inside; columns likewise. Padding adds nothing, for zero points are 0.
 */
#ifndef CIRCLET_CONV_INT_H
#define CIRCLET_CONV_INT_H

#include "simd_int.h"
#include "strides.h"
#include "sum_int.h"

struct conv_int_params {
    struct image_strides in;
    struct image_strides out;
    int64_t out_height;
    int64_t out_width;
    int64_t in_height;
    int64_t in_width;
    int64_t depth;   /* input channels of a sum */
    int64_t columns; /* output channels */
    int64_t blocks;  /* of output channels */
    int64_t tap_height;
    int64_t tap_width;
    int64_t step[2];  /* down and across, see above */
    int64_t tap[2];
    int64_t first[2];
    int64_t up[2];
    int32_t zero; /* of the result */
    int32_t low;  /* smallest result */
    int32_t high; /* largest result */
};

/* The input position that a tap meets, or -1. */
CIRCLET_INLINE int64_t conv_int_meets(const struct conv_int_params *p, int64_t at, int64_t tap,
                                      int64_t size, int axis) {
    int64_t scaled = at * p->step[axis] + tap * p->tap[axis] + p->first[axis];
    if (scaled < 0 || scaled % p->up[axis]) return -1;
    scaled /= p->up[axis];
    return scaled < size ? scaled : -1;
}

/* One tap of a depthwise convolution: lanes are channels. */
CIRCLET_INLINE void conv_int_channels(vi *acc, const int16_t *x, const int16_t *panel,
                                      int64_t left, const int NV) {
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
        int64_t count = s_min_i64(left - v * CIRCLET_LANES, CIRCLET_LANES);
        if (count <= 0) continue;
        vi16 value = (vi16)element_load_i32(x + v * CIRCLET_LANES, count, ELEMENT_I16);
        vi16 weight = (vi16)(v_widen_i16(panel + v * CIRCLET_LANES) & 0xffff);
        acc[v] = v_dot2(acc[v], value, weight);
    }
}

CIRCLET_INLINE void conv_int_flush(wl *wide, vi *acc, const int NV) {
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) wide[v] += v_to_i64(acc[v]), acc[v] = v_zero_i32();
}

CIRCLET_INLINE void conv_int_pixel(const struct conv_int_params *p, wl *acc, const int16_t *image,
                                   const int16_t *panel, int64_t y, int64_t x, int64_t left,
                                   const int NV, const int BY_CHANNEL) {
    int64_t panel_step = (BY_CHANNEL ? 1 : p->depth) * NV * CIRCLET_LANES, taps = 0;
    vi part[4];
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) part[v] = v_zero_i32();
    for (int64_t ky = 0; ky < p->tap_height; ky++) {
        int64_t in_y = conv_int_meets(p, y, ky, p->in_height, 0);
        if (in_y < 0) continue;
        for (int64_t kx = 0; kx < p->tap_width; kx++) {
            int64_t in_x = conv_int_meets(p, x, kx, p->in_width, 1);
            if (in_x < 0) continue;
            const int16_t *from = image + in_y * p->in.row + in_x * p->in.pixel;
            const int16_t *weights = panel + (ky * p->tap_width + kx) * panel_step;
            if (!BY_CHANNEL) {
                sum_int_run(acc, from, p->depth, weights, NV);
                continue;
            }
            conv_int_channels(part, from, weights, left, NV);
            if (++taps % SUM_INT_FLUSH == 0) conv_int_flush(acc, part, NV);
        }
    }
    if (BY_CHANNEL) conv_int_flush(acc, part, NV);
}

/* Operands: input, packed weights, qparams of the columns, output. A task is one row of a block. */
CIRCLET_INLINE void conv_int(const struct conv_int_params *p, void *const *operands, void *scratch,
                             int64_t begin, int64_t end, const int NV, const int BY_CHANNEL,
                             const int WIDE) {
    (void)scratch;
    const int width = NV * CIRCLET_LANES;
    int64_t taps = p->tap_height * p->tap_width;
    struct sum_int_bounds bounds = {p->zero, p->low, p->high};
    for (int64_t task = begin; task < end; task++) {
        int64_t block = task % p->blocks, row = task / p->blocks;
        int64_t batch = row / p->out_height, y = row % p->out_height, first = block * width;
        const int16_t *image = (const int16_t *)operands[0] + batch * p->in.batch;
        const int16_t *panel = (const int16_t *)operands[1];
        panel += first * taps * (BY_CHANNEL ? 1 : p->depth);
        if (BY_CHANNEL) image += first;
        const int64_t *qparam = (const int64_t *)operands[2] + block * SUM_INT_QPARAM * width;
        int16_t *out = (int16_t *)operands[3] + strides_at(&p->out, batch, y, 0) + first;
        for (int64_t x = 0; x < p->out_width; x++) {
            wl acc[4];
            CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[v] = v_splat_i64(0);
            conv_int_pixel(p, acc, image, panel, y, x, p->columns - first, NV, BY_CHANNEL);
            sum_int_store_all((char *)(out + x * p->out.pixel), acc, qparam, bounds,
                              p->columns - first, ELEMENT_I16, NV, WIDE);
        }
    }
}

#endif
