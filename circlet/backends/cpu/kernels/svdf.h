/* SVDF (Nakkiran et al., 2015): each filter's product with the newest input joins its history,
 * whose dot product with the filter's time weights, summed over the filters of a unit, is the
 * output. One task for each element of the batch. Integers are EvalIntegerSVDF of LiteRT's svdf.h
 * bit for bit.
 *
 * Operands: input, packed feature weights, (records of them,) time weights, biases, state, output.
 */
#ifndef CIRCLET_SVDF_H
#define CIRCLET_SVDF_H

#include "element.h"
#include "matvec.h"
#include "vmath.h"

struct svdf_sizes {
    int64_t inputs;
    int64_t filters;
    int64_t units;  /* outputs */
    int64_t memory; /* steps that are history */
    int64_t rank;   /* filters of a unit */
    int64_t blocks; /* of feature weights */
};

struct svdf_f32_params {
    struct svdf_sizes size;
    float low; /* clamp of the output */
    float high;
};

/* Drops the oldest value of every filter and takes in its newest: all move by one, and what came
 * from the next filter is written over. */
#define SVDF_SHIFT(name, type, source)                                                           \
    CIRCLET_INLINE void name(type *state, const source *newest, int64_t filters, int64_t memory) { \
        for (int64_t i = 0; i + 1 < filters * memory; i++) state[i] = state[i + 1];              \
        for (int64_t f = 0; f < filters; f++) state[(f + 1) * memory - 1] = (type)newest[f];     \
    }
SVDF_SHIFT(svdf_shift_f32, float, float)
SVDF_SHIFT(svdf_shift_i8, int8_t, int32_t)
SVDF_SHIFT(svdf_shift_i16, int16_t, int32_t)

CIRCLET_INLINE float svdf_dot_f32(const float *state, const float *time, int64_t n) {
    vf sum = v_zero();
    for (int64_t i = 0; i < n; i += CIRCLET_LANES) {
        int64_t left = s_min_i64(CIRCLET_LANES, n - i);
        sum = v_fma(element_load_f32(state + i, left, ELEMENT_F32),
                    element_load_f32(time + i, left, ELEMENT_F32), sum);
    }
    return v_fold_add(sum);
}

/* The newest products join the past of an element of the batch, which makes its outputs. */
CIRCLET_INLINE void svdf_f32_remember(const struct svdf_f32_params *p, const float *newest,
                                      const float *time, const float *bias, float *state,
                                      float *out) {
    const struct svdf_sizes *s = &p->size;
    const int64_t history = s->rank * s->memory;
    svdf_shift_f32(state, newest, s->filters, s->memory);
    for (int64_t unit = 0; unit < s->units; unit++) {
        int64_t at = unit * history;
        float sum = bias[unit] + svdf_dot_f32(state + at, time + at, history);
        sum = sum < p->low ? p->low : sum;
        out[unit] = sum > p->high ? p->high : sum;
    }
}

CIRCLET_INLINE void svdf_f32(const struct svdf_f32_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, const int vectors) {
    const struct svdf_sizes *s = &p->size;
    float *newest = scratch;
    for (int64_t batch = begin; batch < end; batch++) {
        const float *in = (const float *)x[0] + batch * s->inputs;
        float *state = (float *)x[4] + batch * s->filters * s->memory;
        float *out = (float *)x[5] + batch * s->units;
        matvec_f32(x[1], in, s->inputs, in, 0, newest, s->blocks, vectors);
        svdf_f32_remember(p, newest, x[2], x[3], state, out);
    }
}

struct svdf_q8_params {
    struct svdf_sizes size;
    int64_t in_offset; /* where the input's words start in scratch memory, in bytes */
    int32_t state_zero;
    int32_t state_low;
    int32_t state_high;
    int32_t multiplier; /* from sums to the output */
    int32_t shift;
    int32_t zero;
};

typedef int32_t svdf_eight __attribute__((vector_size(32)));

CIRCLET_INLINE svdf_eight svdf_load_eight(const void *p, const int type) {
    int8_t bytes __attribute__((vector_size(8)));
    int16_t words __attribute__((vector_size(16)));
    if (type == ELEMENT_I8) {
        __builtin_memcpy(&bytes, p, sizeof bytes);
        return __builtin_convertvector(bytes, svdf_eight);
    }
    __builtin_memcpy(&words, p, sizeof words);
    return __builtin_convertvector(words, svdf_eight);
}

CIRCLET_INLINE int32_t svdf_load_one(const void *p, const int type) {
    return type == ELEMENT_I8 ? *(const int8_t *)p : *(const int16_t *)p;
}

/* Sum of n products of stored values of a type, by eights, as histories are short. int32 lanes wrap
 * as LiteRT's accumulator does, in whatever order: addition modulo 2^32 is associative. */
CIRCLET_INLINE int32_t svdf_dot(const char *state, const char *time, int64_t n, const int type) {
    const int64_t size = element_size(type);
    svdf_eight sum = {0};
    int32_t rest = 0;
    for (; n >= 8; n -= 8, state += 8 * size, time += 8 * size)
        sum += svdf_load_eight(state, type) * svdf_load_eight(time, type);
    for (; n > 0; n--, state += size, time += size)
        rest += svdf_load_one(state, type) * svdf_load_one(time, type);
    return rest + sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

/* Biases hold what the state's zero point takes off. */
CIRCLET_INLINE void svdf_q8(const struct svdf_q8_params *p, void *const *x, void *scratch,
                            int64_t begin, int64_t end, const int vectors, const int type) {
    int32_t *newest = scratch;
    uint8_t *words = (uint8_t *)scratch + p->in_offset;
    struct matvec_bounds bounds = {p->state_zero, p->state_low, p->state_high};
    const struct svdf_sizes *s = &p->size;
    const int64_t size = element_size(type), history = s->rank * s->memory;
    for (int64_t batch = begin; batch < end; batch++) {
        const int32_t *bias = x[4];
        char *state = (char *)x[5] + batch * s->filters * s->memory * size;
        int8_t *out = (int8_t *)x[6] + batch * s->units;
        matvec_words(words, (const int8_t *)x[0] + batch * s->inputs, s->inputs);
        matvec_q8(x[1], words, (s->inputs + 3) / 4, x[2], newest, s->blocks, bounds, Q8_GENERAL, 0,
                  vectors);
        if (type == ELEMENT_I8) svdf_shift_i8((int8_t *)state, newest, s->filters, s->memory);
        else svdf_shift_i16((int16_t *)state, newest, s->filters, s->memory);
        for (int64_t unit = 0; unit < s->units; unit++) {
            int64_t at = unit * history * size;
            newest[unit] = bias[unit] + svdf_dot(state + at, (char *)x[3] + at, history, type);
        }
        for (int64_t i = 0; i < s->units; i += CIRCLET_LANES) {
            vi y = v_scale_all(v_load_i32(newest + i), p->multiplier, p->shift) + p->zero;
            y = v_clamp_i32(y, v_splat_i32(-128), v_splat_i32(127));
            element_store_i32(out + i, y, s_min_i64(CIRCLET_LANES, s->units - i), ELEMENT_I8);
        }
    }
}

#endif
