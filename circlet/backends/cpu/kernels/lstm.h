/* LSTM over time in float32: one task for each element of the batch.
 *
 * The gates of a step are one product over input and state, in the order input (unless HAS_INPUT
 * is 0), forget, cell, output, each of `gate` lanes. Rows of `tables` for each gate: weights of the
 * cell state, norm coefficients, bias after the norm.
 *
 * Operands: input, gate weights, output, output state, cell state, tables, projection weights.
 */
#ifndef CIRCLET_LSTM_H
#define CIRCLET_LSTM_H

#include "element.h"
#include "matvec.h"
#include "vmath.h"

enum { LSTM_NONE, LSTM_RELU, LSTM_RELU6, LSTM_TANH };

struct lstm_f32_params {
    int64_t steps;
    int64_t in_batch;   /* input elements between elements of the batch */
    int64_t in_step;    /* input elements between steps */
    int64_t out_batch;  /* the same for the output */
    int64_t out_step;
    int64_t inputs;     /* sizes of vectors */
    int64_t cells;
    int64_t outputs;
    int64_t gate;       /* cells rounded up to whole registers */
    int64_t gate_blocks;
    int64_t hidden;     /* where hidden values and projections start in scratch memory */
    int64_t projected;
    int64_t projection_blocks; /* 0 without a projection */
    float cell_clip;    /* infinity for none */
    float projection_clip;
};

CIRCLET_INLINE vf lstm_activate(vf x, const int activation) {
    if (activation == LSTM_TANH) return v_tanh(x);
    if (activation == LSTM_NONE) return x;
    x = v_max(x, v_zero());
    return activation == LSTM_RELU6 ? v_min(x, v_splat(6.0f)) : x;
}

CIRCLET_INLINE void lstm_f32_norm(float *x, int64_t n, const float *weights, const float *bias) {
    float sum = 0.0f, squares = 0.0f, count = (float)(int32_t)n;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / count;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    float inverse = v_rsqrt(v_splat(squares / count + 1e-8f))[0];
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean) * inverse * weights[i] + bias[i];
}

/* Adds what a gate sees of the cell state, and normalises it. */
CIRCLET_INLINE void lstm_f32_gate(const struct lstm_f32_params *p, float *gate, const float *table,
                                  const float *cell, const int look, const int norm) {
    if (look)
        for (int64_t i = 0; i < p->cells; i++) gate[i] += table[i] * cell[i];
    if (norm) lstm_f32_norm(gate, p->cells, table + p->gate, table + 2 * p->gate);
}

CIRCLET_INLINE vf lstm_f32_clip(vf x, float limit) {
    return v_clamp(x, v_splat(-limit), v_splat(limit));
}

CIRCLET_INLINE void lstm_f32_cell(const struct lstm_f32_params *p, const float *gates, float *cell,
                                  const int has_input, const int activation) {
    const float *forget = gates + has_input * p->gate;
    for (int64_t i = 0; i < p->cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->cells - i);
        vf kept = v_logistic(v_load(forget + i));
        vf update = lstm_activate(v_load(forget + p->gate + i), activation);
        vf taken = v_splat(1.0f) - kept;
        if (has_input) taken = v_logistic(v_load(gates + i));
        vf c = v_fma(kept, element_load_f32(cell + i, n, ELEMENT_F32), taken * update);
        element_store_f32(cell + i, lstm_f32_clip(c, p->cell_clip), n);
    }
}

CIRCLET_INLINE void lstm_f32_hidden(const struct lstm_f32_params *p, const float *opened,
                                    const float *cell, float *hidden, const int activation) {
    for (int64_t i = 0; i < p->cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->cells - i);
        vf c = element_load_f32(cell + i, n, ELEMENT_F32);
        v_store(hidden + i, v_logistic(v_load(opened + i)) * lstm_activate(c, activation));
    }
}

CIRCLET_INLINE void lstm_f32_give(float *state, float *out, const float *from, int64_t count,
                                  float clip) {
    for (int64_t i = 0; i < count; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, count - i);
        vf x = lstm_f32_clip(v_load(from + i), clip);
        element_store_f32(state + i, x, n);
        element_store_f32(out + i, x, n);
    }
}

CIRCLET_INLINE void lstm_f32(const struct lstm_f32_params *p, void *const *x, void *scratch,
                             int64_t begin, int64_t end, const int vectors,
                             const int projection_vectors, const int has_input,
                             const int activation, const int look, const int norm) {
    float *gates = scratch, *hidden = gates + p->hidden, *projected = gates + p->projected;
    const float *tables = x[5];
    const int last = 2 + has_input;
    for (int64_t batch = begin; batch < end; batch++) {
        float *state = (float *)x[3] + batch * p->outputs;
        float *cell = (float *)x[4] + batch * p->cells;
        const float *in = (const float *)x[0] + batch * p->in_batch;
        float *out = (float *)x[2] + batch * p->out_batch;
        for (int64_t step = 0; step < p->steps; step++, in += p->in_step, out += p->out_step) {
            matvec_f32(x[1], in, p->inputs, state, p->outputs, gates, p->gate_blocks, vectors);
            for (int g = 0; g < last; g++)
                lstm_f32_gate(p, gates + g * p->gate, tables + 3 * g * p->gate, cell,
                              look && g != last - 1, norm);
            lstm_f32_cell(p, gates, cell, has_input, activation);
            float *opened = gates + last * p->gate;
            lstm_f32_gate(p, opened, tables + 3 * last * p->gate, cell, look, norm);
            lstm_f32_hidden(p, opened, cell, hidden, activation);
            if (projection_vectors)
                matvec_f32(x[6], hidden, p->cells, hidden, 0, projected, p->projection_blocks,
                           projection_vectors);
            lstm_f32_give(state, out, projection_vectors ? projected : hidden, p->outputs,
                          p->projection_clip);
        }
    }
}

#endif
