/* Float convolutions of volumes, also transposed, with weights of any kind.
 *
 * A vector holds output channels. Weights are read where they lie, by strides.
 */
#ifndef CIRCLET_CONV_DIRECT_H
#define CIRCLET_CONV_DIRECT_H

#include "simd.h"

struct conv_direct_params {
    int64_t in_size[3]; /* depth, height, width */
    int64_t out_size[3];
    int64_t window[3];
    int64_t stride[3];
    int64_t dilation[3];
    int64_t before[3];  /* padding */
    int64_t up[3];      /* outputs to an input: strides of a transposed convolution */
    int64_t in_step[3]; /* input elements between neighbours */
    int64_t in_batch;
    int64_t w_tap[3]; /* weights between taps */
    int64_t w_in;     /* between input channels */
    int64_t w_out;    /* between output channels */
    int64_t depth;    /* input channels of a sum */
    int64_t columns;  /* output channels */
    float low;
    float high;
};

CIRCLET_INLINE int64_t conv_direct_meets(const struct conv_direct_params *p, int64_t at,
                                         int64_t tap, int axis) {
    int64_t found = at * p->stride[axis] + tap * p->dilation[axis] - p->before[axis];
    if (found < 0 || found % p->up[axis]) return -1;
    found /= p->up[axis];
    return found < p->in_size[axis] ? found : -1;
}

/* `count` elements `step` apart. */
CIRCLET_INLINE vf conv_direct_gather(const float *p, int64_t step, int64_t count) {
    if (step == 1) return count == CIRCLET_LANES ? v_load(p) : v_load_n(p, count);
    union { vf v; float e[CIRCLET_LANES]; } u = {v_zero()};
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i++) u.e[i] = p[i * step];
    return u.v;
}

CIRCLET_INLINE vf conv_direct_tap(const struct conv_direct_params *p, vf sum, const float *x,
                                  const float *w, int64_t first, int64_t count) {
    for (int64_t c = 0; c < p->depth; c++) {
        vf weights = conv_direct_gather(w + c * p->w_in + first * p->w_out, p->w_out, count);
        sum = v_fma(v_splat(x[c]), weights, sum);
    }
    return sum;
}

CIRCLET_INLINE vf conv_direct_sum(const struct conv_direct_params *p, vf sum, const float *x,
                                  const float *w, const int64_t *at, int64_t first, int64_t count) {
    for (int64_t i = 0; i < p->window[0]; i++) {
        int64_t z = conv_direct_meets(p, at[0], i, 0);
        for (int64_t j = 0; z >= 0 && j < p->window[1]; j++) {
            int64_t y = conv_direct_meets(p, at[1], j, 1);
            for (int64_t k = 0; y >= 0 && k < p->window[2]; k++) {
                int64_t column = conv_direct_meets(p, at[2], k, 2);
                if (column < 0) continue;
                const float *from = x + z * p->in_step[0] + y * p->in_step[1];
                const float *weights = w + i * p->w_tap[0] + j * p->w_tap[1] + k * p->w_tap[2];
                sum = conv_direct_tap(p, sum, from + column * p->in_step[2], weights, first, count);
            }
        }
    }
    return sum;
}

/* Operands: input, weights, bias or null, output. A task is one row of the output. */
CIRCLET_INLINE void conv_direct(const struct conv_direct_params *p, void *const *operands,
                                void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const float *bias = operands[2];
    for (int64_t task = begin; task < end; task++) {
        int64_t plane = task / p->out_size[1];
        int64_t at[3] = {plane % p->out_size[0], task % p->out_size[1], 0};
        const float *x = (const float *)operands[0] + plane / p->out_size[0] * p->in_batch;
        float *out = (float *)operands[3] + task * p->out_size[2] * p->columns;
        for (; at[2] < p->out_size[2]; at[2]++, out += p->columns)
            for (int64_t first = 0; first < p->columns; first += CIRCLET_LANES) {
                int64_t count = s_min_i64(p->columns - first, CIRCLET_LANES);
                vf sum = bias ? conv_direct_gather(bias + first, 1, count) : v_zero();
                sum = conv_direct_sum(p, sum, x, operands[1], at, first, count);
                sum = v_clamp(sum, v_splat(p->low), v_splat(p->high));
                if (count == CIRCLET_LANES) v_store(out + first, sum);
                else v_store_n(out + first, sum, count);
            }
    }
}

#endif
