/* LSTM over time in fixed point: int8 values, int16 gates and cells held in int32 lanes; one task
 * for each element of the batch. Bit for bit EvalInteger8x8_16 of LiteRT's lstm_eval.cc.
 *
 * Gates are Q3.12, where their activations take them, and results of activations Q0.15; the cell
 * state has `cell_bits` integer bits. Sums over input and over state are clamped to 16 bits one
 * after the other, as MatrixBatchVectorMultiplyAccumulate does.
 *
 * Operands: input, weights of the input, their records, weights of the state, their records,
 * output, output state, cell state, tables, projection weights, their records.
 */
#ifndef CIRCLET_LSTM_Q8_H
#define CIRCLET_LSTM_Q8_H

#include "element.h"
#include "gemmlowp16.h"
#include "lstm_norm_q8.h"
#include "lstm_sizes.h"
#include "matvec.h"

struct lstm_q8_params {
    struct lstm_sizes size;
    int64_t in_offset; /* bytes of scratch before input, state, hidden values, projections */
    int64_t state_offset;
    int64_t hidden_offset;
    int64_t projected_offset;
    int32_t peephole_multiplier[4]; /* factors of each gate */
    int32_t peephole_shift[4];
    int32_t norm_multiplier[4];
    int32_t norm_shift[4];
    int32_t norm_limit[4];
    int32_t hidden_multiplier;
    int32_t hidden_shift;
    int32_t hidden_zero;
    int32_t cell_clip;
    int32_t zero; /* of the projection's results */
    int32_t low;
    int32_t high;
};

/* Adds the peephole to gate number `g`, and normalises it. */
CIRCLET_INLINE void lstm_q8_gate(const struct lstm_q8_params *p, int32_t *gates, int g,
                                 const int32_t *tables, const int16_t *cell, const int peephole,
                                 const int norm) {
    int32_t *gate = gates + g * p->size.gate;
    const int32_t *table = tables + 3 * g * p->size.gate;
    for (int64_t i = 0; peephole && i < p->size.cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->size.cells - i);
        vi seen = v_load_i32(table + i) * element_load_i32(cell + i, n, ELEMENT_I16);
        seen = v_scale_all(seen, p->peephole_multiplier[g], p->peephole_shift[g]);
        v_store_i32(gate + i, g16_saturate(seen + v_load_i32(gate + i)));
    }
    struct lstm_norm scale = {p->norm_multiplier[g], p->norm_shift[g], p->norm_limit[g]};
    const int32_t *norms = table + p->size.gate;
    if (norm) lstm_norm_q8(gate, p->size.cells, norms, norms + p->size.gate, scale);
}

/* cell = forget * cell + input * update, in the format of the cell: Q0.15 * cell is shifted by
 * 15, Q0.15 * Q0.15 by 15 + cell_bits, and each product is rounded by itself
 * (UpdateLstmCellInteger). */
CIRCLET_INLINE void lstm_q8_cell(const struct lstm_q8_params *p, const int32_t *gates,
                                 int16_t *cell, const int has_input_gate, const int cell_bits) {
    const int32_t *forget = gates + has_input_gate * p->size.gate;
    vi limit = v_splat_i32(p->cell_clip);
    for (int64_t i = 0; i < p->size.cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->size.cells - i);
        vi keep = g16_logistic(v_load_i32(forget + i));
        vi update = g16_tanh(v_load_i32(forget + p->size.gate + i), 3);
        vi input = G16_ONE - keep;
        if (has_input_gate) input = g16_logistic(v_load_i32(gates + i));
        vi kept = keep * element_load_i32(cell + i, n, ELEMENT_I16);
        vi c = v_rdbpot(kept, v_splat_i32(15));
        c = g16_saturate(c + v_rdbpot(input * update, v_splat_i32(15 + cell_bits)));
        element_store_i32(cell + i, v_clamp_i32(c, -limit, limit), n, ELEMENT_I16);
    }
}

CIRCLET_INLINE void lstm_q8_hidden(const struct lstm_q8_params *p, const int32_t *output_gate,
                                   const int16_t *cell, int8_t *hidden, const int cell_bits) {
    vi low = v_splat_i32(-128), high = v_splat_i32(127);
    for (int64_t i = 0; i < p->size.cells; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->size.cells - i);
        vi c = g16_tanh(element_load_i32(cell + i, n, ELEMENT_I16), cell_bits);
        vi y = g16_logistic(v_load_i32(output_gate + i)) * c;
        y = v_scale_all(y, p->hidden_multiplier, p->hidden_shift) + p->hidden_zero;
        element_store_i32(hidden + i, v_clamp_i32(y, low, high), n, ELEMENT_I8);
    }
}

CIRCLET_INLINE void lstm_q8_project(const struct lstm_q8_params *p, void *const *x, char *scratch,
                                    int8_t *state, const int vectors) {
    uint8_t *bytes = (uint8_t *)scratch + p->in_offset;
    int32_t *projected = (int32_t *)(scratch + p->projected_offset);
    struct matvec_bounds bounds = {p->zero, p->low, p->high};
    matvec_words(bytes, (const int8_t *)scratch + p->hidden_offset, p->size.cells);
    matvec_q8(x[9], bytes, (p->size.cells + 3) / 4, x[10], projected, p->size.projection_blocks,
              bounds, 0, vectors);
    for (int64_t i = 0; i < p->size.outputs; i += CIRCLET_LANES)
        element_store_i32(state + i, v_load_i32(projected + i),
                          s_min_i64(CIRCLET_LANES, p->size.outputs - i), ELEMENT_I8);
}

CIRCLET_INLINE void lstm_q8(const struct lstm_q8_params *p, void *const *x, void *scratch,
                            int64_t begin, int64_t end, const int vectors,
                            const int projection_vectors, const int has_input_gate,
                            const int cell_bits, const int peephole, const int norm) {
    const struct matvec_bounds whole = {0, -32768, 32767};
    const struct lstm_sizes *s = &p->size;
    int32_t *gates = scratch;
    uint8_t *in_words = (uint8_t *)scratch + p->in_offset;
    uint8_t *state_words = (uint8_t *)scratch + p->state_offset;
    const int last = 2 + has_input_gate;
    const int64_t work = lstm_step_work(s);
    stop_count stop = stop_start(x[11]);
    for (int64_t batch = begin; batch < end; batch++) {
        int8_t *state = (int8_t *)x[6] + batch * s->outputs;
        int16_t *cell = (int16_t *)x[7] + batch * s->cells;
        const int8_t *in = (const int8_t *)x[0] + batch * s->in_batch;
        int8_t *out = (int8_t *)x[5] + batch * s->out_batch;
        for (int64_t step = 0; step < s->steps; step++, in += s->in_step, out += s->out_step) {
            if (stop_after(&stop, work)) return;
            matvec_words(in_words, in, s->inputs);
            matvec_words(state_words, state, s->outputs);
            matvec_q8(x[1], in_words, (s->inputs + 3) / 4, x[2], gates, s->gate_blocks, whole, 0,
                      vectors);
            matvec_q8(x[3], state_words, (s->outputs + 3) / 4, x[4], gates, s->gate_blocks, whole,
                      1, vectors);
            for (int g = 0; g < last; g++)
                lstm_q8_gate(p, gates, g, x[8], cell, peephole && g != last - 1, norm);
            lstm_q8_cell(p, gates, cell, has_input_gate, cell_bits);
            lstm_q8_gate(p, gates, last, x[8], cell, peephole, norm);
            int8_t *hidden = projection_vectors ? (int8_t *)scratch + p->hidden_offset : state;
            lstm_q8_hidden(p, gates + last * s->gate, cell, hidden, cell_bits);
            if (projection_vectors) lstm_q8_project(p, x, scratch, state, projection_vectors);
            __builtin_memcpy(out, state, (size_t)s->outputs);
        }
    }
}

#endif
