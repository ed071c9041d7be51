/* LSTM over time in float32: one task for each element of the batch, as each step needs the state
 * that the one before left. The gates of a step are one product over input and state.
 *
 * Operands: input, gate weights, output, output state, cell state, tables, projection weights.
 */
#ifndef CIRCLET_LSTM_H
#define CIRCLET_LSTM_H

#include "element.h"
#include "lstm_sizes.h"
#include "matvec.h"
#include "vmath.h"

enum { LSTM_NONE, LSTM_RELU, LSTM_RELU6, LSTM_TANH };
/* Besides one of these: gates go through a line within 0 and 1, not through the logistic. */
#define LSTM_HARD_GATES 8

struct lstm_f32_params {
    struct lstm_sizes size;
    int64_t hidden;     /* where hidden values and projections start in scratch memory */
    int64_t projected;
    float cell_clip;    /* infinity for none */
    float projection_clip;
    float gate_slope;   /* of hard gates */
    float gate_offset;
};

CIRCLET_INLINE vf lstm_gated(const struct lstm_f32_params *p, vf x, const int activation) {
    if (!(activation & LSTM_HARD_GATES)) return v_logistic(x);
    vf y = v_fma(x, v_splat(p->gate_slope), v_splat(p->gate_offset));
    return v_clamp(y, v_zero(), v_splat(1.0f));
}

CIRCLET_INLINE vf lstm_activate(vf x, const int given) {
    const int activation = given & ~LSTM_HARD_GATES;
    if (activation == LSTM_TANH) return v_tanh(x);
    if (activation == LSTM_NONE) return x;
    x = v_max(x, v_zero());
    return activation == LSTM_RELU6 ? v_min(x, v_splat(6.0f)) : x;
}

/* Layer norm of a gate: the mean, then squares of differences to it, and LiteRT's 1e-8 under the
 * root. Sums run in order, so that they are the same for every width of registers. */
CIRCLET_INLINE void lstm_f32_norm(float *x, int64_t n, const float *weights, const float *bias) {
    float sum = 0.0f, squares = 0.0f, count = (float)(int32_t)n;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / count;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    float inverse = v_rsqrt(v_splat(squares / count + 1e-8f))[0];
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean) * inverse * weights[i] + bias[i];
}

/* Adds the peephole to a gate, and normalises it. */
CIRCLET_INLINE void lstm_f32_gate(const struct lstm_f32_params *p, float *gate, const float *table,
                                  const float *cell, const int peephole, const int norm) {
    if (peephole)
        for (int64_t i = 0; i < p->size.cells; i++) gate[i] += table[i] * cell[i];
    if (norm) lstm_f32_norm(gate, p->size.cells, table + p->size.gate, table + 2 * p->size.gate);
}

CIRCLET_INLINE vf lstm_f32_clip(vf x, float limit) {
    return v_clamp(x, v_splat(-limit), v_splat(limit));
}

/* cell = forget * cell + input * update. Gates fill whole registers; the state does not, and its
 * last vector is masked. */
CIRCLET_INLINE void lstm_f32_cell(const struct lstm_f32_params *p, const float *gates, float *cell,
                                  const int has_input_gate, const int activation) {
    const float *forget = gates + has_input_gate * p->size.gate;
    for (int64_t i = 0; i < p->size.cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->size.cells - i);
        vf keep = lstm_gated(p, v_load(forget + i), activation);
        vf update = lstm_activate(v_load(forget + p->size.gate + i), activation);
        vf input = v_splat(1.0f) - keep;
        if (has_input_gate) input = lstm_gated(p, v_load(gates + i), activation);
        vf c = v_fma(keep, element_load_f32(cell + i, n, ELEMENT_F32), input * update);
        element_store_f32(cell + i, lstm_f32_clip(c, p->cell_clip), n);
    }
}

CIRCLET_INLINE void lstm_f32_hidden(const struct lstm_f32_params *p, const float *output_gate,
                                    const float *cell, float *hidden, const int activation) {
    for (int64_t i = 0; i < p->size.cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->size.cells - i);
        vf c = element_load_f32(cell + i, n, ELEMENT_F32);
        vf open = lstm_gated(p, v_load(output_gate + i), activation);
        v_store(hidden + i, open * lstm_activate(c, activation));
    }
}

/* From the products of a step to the new cell state and the hidden values. Peepholes of the input
 * and forget gates see the old cell state, that of the output gate the new one; the update between
 * them has none. */
CIRCLET_INLINE void lstm_f32_step(const struct lstm_f32_params *p, float *gates,
                                  const float *tables, float *cell, float *hidden,
                                  const int has_input_gate, const int activation,
                                  const int peephole, const int norm) {
    const int last = 2 + has_input_gate;
    const int64_t gate = p->size.gate;
    for (int g = 0; g < last; g++)
        lstm_f32_gate(p, gates + g * gate, tables + 3 * g * gate, cell,
                      peephole && g != last - 1, norm);
    lstm_f32_cell(p, gates, cell, has_input_gate, activation);
    float *output_gate = gates + last * gate;
    lstm_f32_gate(p, output_gate, tables + 3 * last * gate, cell, peephole, norm);
    lstm_f32_hidden(p, output_gate, cell, hidden, activation);
}

/* What a step gives is its output, and the state that the next step reads. */
CIRCLET_INLINE void lstm_f32_store(float *state, float *out, const float *from, int64_t count,
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
                             const int projection_vectors, const int has_input_gate,
                             const int activation, const int peephole, const int norm) {
    float *gates = scratch, *hidden = gates + p->hidden, *projected = gates + p->projected;
    const struct lstm_sizes *s = &p->size;
    const float *tables = x[5];
    const int64_t work = lstm_step_work(s);
    stop_count stop = stop_start(x[7]);
    for (int64_t batch = begin; batch < end; batch++) {
        float *state = (float *)x[3] + batch * s->outputs;
        float *cell = (float *)x[4] + batch * s->cells;
        const float *in = (const float *)x[0] + batch * s->in_batch;
        float *out = (float *)x[2] + batch * s->out_batch;
        for (int64_t step = 0; step < s->steps; step++, in += s->in_step, out += s->out_step) {
            if (stop_after(&stop, work)) return;
            matvec_f32(x[1], in, s->inputs, state, s->outputs, gates, s->gate_blocks, vectors);
            lstm_f32_step(p, gates, tables, cell, hidden, has_input_gate, activation, peephole,
                          norm);
            if (projection_vectors)
                matvec_f32(x[6], hidden, s->cells, hidden, 0, projected, s->projection_blocks,
                           projection_vectors);
            lstm_f32_store(state, out, projection_vectors ? projected : hidden, s->outputs,
                          p->projection_clip);
        }
    }
}

#endif
