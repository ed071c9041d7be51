/* Recurrent cells over time in float32, whose products with the input are made ahead, for all steps
 * at once: plain cells, GRU and LSTM, forwards and backwards, sequences of several lengths.
 *
 * A task is one element of the batch in one direction, as each step needs the state that the one
 * before left; tasks of a direction follow each other. Gates stand in the order update, reset,
 * candidate (GRU), and input, forget, cell, output (LSTM). Packed weights of the state hold what is
 * added to their products as biases.
 *
 * Operands: products with the input [batch and step, direction, gate, hidden], packed weights of the
 * state, packed weights of the reset state (GRU), peepholes, lengths, first states, first cells,
 * output, last states, last cells, circlet_stop. Those that are omitted are null.
 */
#ifndef CIRCLET_RECURRENT_F32_H
#define CIRCLET_RECURRENT_F32_H

#include "lstm.h"

/* With RECURRENT_GRU_AFTER the state is multiplied with its weights before it is reset. */
enum recurrent_cell { RECURRENT_PLAIN, RECURRENT_GRU, RECURRENT_GRU_AFTER, RECURRENT_LSTM };

struct recurrent_f32_params {
    struct lstm_f32_params lstm; /* steps, strides of products and outputs, hidden size, blocks */
    int64_t batches;
    int64_t turned;           /* a bit for each direction, set where it runs backwards */
    int64_t reset_blocks;     /* of the weights of the reset state */
    int64_t in_direction;     /* floats between directions: of products, */
    int64_t out_direction;    /* of outputs, */
    int64_t state_direction;  /* of states, */
    int64_t state_batch;      /* and between elements of the batch */
    int64_t weights_direction;
    int64_t reset_direction;
    int64_t table_direction;
    int64_t state;            /* where parts of scratch memory start, in floats */
    int64_t cell;
    int64_t candidate;
    float clip;               /* the largest magnitude that a gate's activation sees */
};

#define RECURRENT_EACH(i, n, count)                                                   \
    for (int64_t i = 0, n; n = s_min_i64(CIRCLET_LANES, (count) - i), i < (count);    \
         i += CIRCLET_LANES)

CIRCLET_INLINE vf recurrent_clip(vf x, float limit, const int clips) {
    return clips ? lstm_f32_clip(x, limit) : x;
}

/* Adds the products with the input to those with the state, for `gates` gates. */
CIRCLET_INLINE void recurrent_join(const struct lstm_sizes *s, float *to, const float *in,
                                   int gates) {
    for (int g = 0; g < gates; g++, to += s->gate, in += s->cells)
        RECURRENT_EACH(i, n, s->cells)
            v_store(to + i, v_load(to + i) + element_load_f32(in + i, n, ELEMENT_F32));
}

CIRCLET_INLINE void recurrent_plain(const struct recurrent_f32_params *p, const float *gates,
                                    float *state, const int activation, const int clips) {
    for (int64_t i = 0; i < p->lstm.size.gate; i += CIRCLET_LANES)
        v_store(state + i,
                lstm_activate(recurrent_clip(v_load(gates + i), p->clip, clips), activation));
}

/* state = (1 - update) * candidate + update * state. */
CIRCLET_INLINE void recurrent_gru_mix(const struct recurrent_f32_params *p, const float *update,
                                      const float *candidate, float *state, const int activation,
                                      const int clips) {
    for (int64_t i = 0; i < p->lstm.size.gate; i += CIRCLET_LANES) {
        vf keep = recurrent_clip(v_load(update + i), p->clip, clips);
        keep = lstm_gated(&p->lstm, keep, activation);
        vf fresh = recurrent_clip(v_load(candidate + i), p->clip, clips);
        fresh = lstm_activate(fresh, activation);
        v_store(state + i, v_fma(keep, v_load(state + i), (v_splat(1.0f) - keep) * fresh));
    }
}

/* From the products of a step to the new state; `in` are those with the input. */
CIRCLET_INLINE void recurrent_gru(const struct recurrent_f32_params *p, const float *reset_weights,
                                  float *gates, const float *in, float *state, float *candidate,
                                  const int after, const int reset_vectors, const int activation,
                                  const int clips) {
    const struct lstm_sizes *s = &p->lstm.size;
    float *inner = gates + 2 * s->gate;
    recurrent_join(s, gates, in, 2);
    for (int64_t i = 0; i < s->gate; i += CIRCLET_LANES) {
        vf reset = recurrent_clip(v_load(gates + s->gate + i), p->clip, clips);
        reset = lstm_gated(&p->lstm, reset, activation);
        if (after) v_store(inner + i, reset * v_load(inner + i));
        else v_store(candidate + i, reset * v_load(state + i));
    }
    if (!after) {
        inner = candidate + s->gate;
        matvec_f32(reset_weights, candidate, s->cells, candidate, 0, inner, p->reset_blocks,
                   reset_vectors);
    }
    recurrent_join(s, inner, in + 2 * s->cells, 1);
    recurrent_gru_mix(p, gates, inner, state, activation, clips);
}

CIRCLET_INLINE void recurrent_clip_gates(const struct recurrent_f32_params *p, float *gates,
                                         int count) {
    for (int64_t i = 0; i < count * p->lstm.size.gate; i += CIRCLET_LANES)
        v_store(gates + i, lstm_f32_clip(v_load(gates + i), p->clip));
}

CIRCLET_INLINE void recurrent_lstm(const struct recurrent_f32_params *p, float *gates,
                                   const float *tables, float *state, float *cell,
                                   const int activation, const int peephole, const int clips) {
    const struct lstm_sizes *s = &p->lstm.size;
    for (int g = 0; peephole && g < 2; g++)
        lstm_f32_gate(&p->lstm, gates + g * s->gate, tables + g * s->gate, cell, 1, 0);
    if (clips) recurrent_clip_gates(p, gates, 3);
    lstm_f32_cell(&p->lstm, gates, cell, 1, activation);
    float *output_gate = gates + 3 * s->gate;
    if (peephole) lstm_f32_gate(&p->lstm, output_gate, tables + 2 * s->gate, cell, 1, 0);
    if (clips) recurrent_clip_gates(p, output_gate, 1);
    lstm_f32_hidden(&p->lstm, output_gate, cell, state, activation);
}

CIRCLET_INLINE void recurrent_copy(float *to, const float *from, int64_t count) {
    RECURRENT_EACH(i, n, count)
        element_store_f32(to + i, from ? element_load_f32(from + i, n, ELEMENT_F32) : v_zero(), n);
}

/* The last state of a sequence, where it is asked for. */
CIRCLET_INLINE void recurrent_keep(void *to, int64_t offset, const float *from, int64_t count) {
    if (to) recurrent_copy((float *)to + offset, from, count);
}

CIRCLET_INLINE void recurrent_begin(float *to, const void *from, int64_t offset, int64_t count) {
    recurrent_copy(to, from ? (const float *)from + offset : 0, count);
}

struct recurrent_bytes_params {
    int64_t count;
};

/* How floats become bytes, as DynamicQuantizeLinear chooses it: zero lies among what bytes say, and
 * is exact. */
struct recurrent_scale {
    vf step, zero;
};

CIRCLET_INLINE void recurrent_widen(vf *least, vf *most, const float *from, int64_t count) {
    RECURRENT_EACH(i, n, count) {
        vf x = element_load_f32(from + i, n, ELEMENT_F32);
        *least = v_min(x, *least), *most = v_max(x, *most);
    }
}

CIRCLET_INLINE struct recurrent_scale recurrent_scale_of(vf least, vf most) {
    float low = v_fold_min(least), scale = (v_fold_max(most) - low) / 255.0f;
    vf step = v_splat(scale == 0.0f ? 1.0f : scale);
    vf zero = v_clamp(v_round_even(v_splat(-low) / step), v_zero(), v_splat(255.0f));
    return (struct recurrent_scale){step, zero};
}

/* What is left of floats that become bytes. */
CIRCLET_INLINE void recurrent_rounded(float *to, const float *from, int64_t count,
                                      struct recurrent_scale as) {
    RECURRENT_EACH(i, n, count) {
        vf whole = v_round_even(element_load_f32(from + i, n, ELEMENT_F32) / as.step) + as.zero;
        vf byte = v_clamp(whole, v_zero(), v_splat(255.0f));
        element_store_f32(to + i, (byte - as.zero) * as.step, n);
    }
}

/* Operands: floats, what is left of them by one scale. One task. */
CIRCLET_INLINE void recurrent_bytes(const struct recurrent_bytes_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end) {
    (void)scratch, (void)begin, (void)end;
    vf least = v_zero(), most = v_zero();
    recurrent_widen(&least, &most, x[0], p->count);
    recurrent_rounded(x[1], x[0], p->count, recurrent_scale_of(least, most));
}

CIRCLET_INLINE void recurrent_f32(const struct recurrent_f32_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end,
                                  const enum recurrent_cell kind, const int vectors,
                                  const int reset_vectors, const int activation,
                                  const int peephole, const int clips) {
    const struct lstm_sizes *s = &p->lstm.size;
    const int gate_count = kind == RECURRENT_PLAIN ? 1 : kind == RECURRENT_LSTM ? 4 : 3;
    float *gates = scratch, *state = gates + p->state, *cell = gates + p->cell;
    const int64_t work = (s->cells + 64) * gate_count * s->gate / 16;
    stop_count stop = stop_start(x[10]);
    for (int64_t task = begin; task < end; task++) {
        int64_t direction = task / p->batches, batch = task - direction * p->batches;
        int64_t kept = direction * p->state_direction + batch * p->state_batch;
        const float *weights = (const float *)x[1] + direction * p->weights_direction;
        const float *reset = (const float *)x[2] + direction * p->reset_direction;
        const float *tables = (const float *)x[3] + direction * p->table_direction;
        const float *in = (const float *)x[0] + direction * p->in_direction + batch * s->in_batch;
        float *out = (float *)x[7] + direction * p->out_direction + batch * s->out_batch;
        int64_t length = x[4] ? ((const int32_t *)x[4])[batch] : s->steps;
        length = s_min_i64(length < 0 ? 0 : length, s->steps);
        recurrent_begin(state, x[5], kept, s->cells);
        if (kind == RECURRENT_LSTM) recurrent_begin(cell, x[6], kept, s->cells);
        for (int64_t step = 0; step < s->steps; step++) {
            if (step >= length) {
                recurrent_copy(out + step * s->out_step, 0, s->cells);
                continue;
            }
            if (stop_after(&stop, work)) return;
            int64_t time = p->turned >> direction & 1 ? length - 1 - step : step;
            const float *products = in + time * s->in_step;
            matvec_f32(weights, state, s->cells, state, 0, gates, s->gate_blocks, vectors);
            if (kind == RECURRENT_GRU || kind == RECURRENT_GRU_AFTER) {
                recurrent_gru(p, reset, gates, products, state, gates + p->candidate,
                              kind == RECURRENT_GRU_AFTER, reset_vectors, activation, clips);
            } else {
                recurrent_join(s, gates, products, gate_count);
                if (kind == RECURRENT_LSTM)
                    recurrent_lstm(p, gates, tables, state, cell, activation, peephole, clips);
                else
                    recurrent_plain(p, gates, state, activation, clips);
            }
            recurrent_copy(out + time * s->out_step, state, s->cells);
        }
        recurrent_keep(x[8], kept, state, s->cells);
        if (kind == RECURRENT_LSTM) recurrent_keep(x[9], kept, cell, s->cells);
    }
}

#endif
