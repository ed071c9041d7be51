/* LSTM over time in fixed point: int8 values, int16 gates and cells; one task
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
#include "fixed.h"
#include "gemmlowp16.h"
#include "lstm_norm_q8.h"
#include "lstm_sizes.h"
#include "matvec.h"

struct lstm_q8_params {
    struct lstm_sizes size;
    int64_t in_offset; /* bytes of scratch before inputs, state, cells, hidden values, projections */
    int64_t state_offset;
    int64_t cell_offset;
    int64_t hidden_offset;
    int64_t projected_offset;
    int64_t in_pitch;  /* bytes of the scratch memory of one step's inputs */
    int64_t gate_pitch; /* lanes of one step's gates */
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

CIRCLET_INLINE vi lstm_q8_saturate(vi x) {
    return v_clamp_i32(x, v_splat_i32(-32768), v_splat_i32(32767));
}

/* Adds the peephole to gate number `g`, and normalises it. */
CIRCLET_INLINE void lstm_q8_gate(const struct lstm_q8_params *p, int32_t *gates, int g,
                                 const int32_t *tables, const int16_t *cell, const int peephole,
                                 const int norm) {
    int32_t *gate = gates + g * p->size.gate;
    const int32_t *table = tables + 3 * g * p->size.gate;
    for (int64_t i = 0; peephole && i < p->size.cells; i += CIRCLET_LANES) {
        vi seen = v_load_i32(table + i) * v_widen_i16(cell + i);
        seen = v_scale_all(seen, p->peephole_multiplier[g], p->peephole_shift[g]);
        v_store_i32(gate + i, lstm_q8_saturate(seen + v_load_i32(gate + i)));
    }
    struct lstm_norm scale = {p->norm_multiplier[g], p->norm_shift[g], p->norm_limit[g]};
    const int32_t *norms = table + p->size.gate;
    if (norm) lstm_norm_q8(gate, p->size.cells, norms, norms + p->size.gate, scale);
}

/* Two registers of values of which `left` are there, as one of int16. */
CIRCLET_INLINE vi16 lstm_q8_pair(const int32_t *gate, int64_t left) {
    vi low = v_load_i32(gate), high = low;
    if (left > CIRCLET_LANES) high = v_load_i32(gate + CIRCLET_LANES);
    return v_saturate_2_i16(low, high);
}

/* cell = forget * cell + input * update, in the format of the cell: Q0.15 * cell is shifted by
 * 15, Q0.15 * Q0.15 by 15 + cell_bits, and each product is rounded by itself
 * (UpdateLstmCellInteger). Cells have room for whole pairs of registers. */
CIRCLET_INLINE void lstm_q8_cell(const struct lstm_q8_params *p, const int32_t *gates,
                                 int16_t *cell, const int has_input_gate, const int cell_bits) {
    const int32_t *forget = gates + has_input_gate * p->size.gate;
    vi limit = v_splat_i32(p->cell_clip);
    for (int64_t i = 0; i < p->size.cells; i += 2 * CIRCLET_LANES) {
        int64_t left = p->size.cells - i;
        vi16 keep = g16_logistic(lstm_q8_pair(forget + i, left));
        vi16 update = g16_tanh(lstm_q8_pair(forget + p->size.gate + i, left), 3);
        vi16 input = G16_ONE - keep;
        if (has_input_gate) input = g16_logistic(lstm_q8_pair(gates + i, left));
        CIRCLET_UNROLL for (int n = 0; n < 2; n++) {
            int16_t *at = cell + i + n * CIRCLET_LANES;
            vi added = v_unpack_i16(input, n) * v_unpack_i16(update, n);
            vi c = v_rdbpot(v_unpack_i16(keep, n) * v_widen_i16(at), v_splat_i32(15));
            c = lstm_q8_saturate(c + v_rdbpot(added, v_splat_i32(15 + cell_bits)));
            v_narrow_i16(at, v_clamp_i32(c, -limit, limit));
        }
    }
}

/* Where a step's results go: as they are, of which there are `count`, or nowhere; and as the words
 * of the product that they enter, which have room for whole pairs of registers. */
struct lstm_q8_to {
    int8_t *out;
    int64_t count;
    uint8_t *words;
};

CIRCLET_INLINE void lstm_q8_store(const struct lstm_q8_to *to, int64_t i, vi y) {
    v_narrow_i8((int8_t *)to->words + i, y ^ (CIRCLET_DOT_SIGNED ? 0 : 128));
    if (to->out && i < to->count)
        element_store_i32(to->out + i, y, s_min_i64(CIRCLET_LANES, to->count - i), ELEMENT_I8);
}

CIRCLET_INLINE void lstm_q8_hidden(const struct lstm_q8_params *p, const int32_t *output_gate,
                                   const int16_t *cell, const struct lstm_q8_to *to,
                                   const int cell_bits) {
    vi low = v_splat_i32(-128), high = v_splat_i32(127);
    for (int64_t i = 0; i < p->size.cells; i += 2 * CIRCLET_LANES) {
        vi first = v_widen_i16(cell + i), last = v_widen_i16(cell + i + CIRCLET_LANES);
        vi16 c = g16_tanh(v_saturate_2_i16(first, last), cell_bits);
        vi16 open = g16_logistic(lstm_q8_pair(output_gate + i, p->size.cells - i));
        CIRCLET_UNROLL for (int n = 0; n < 2; n++) {
            vi y = v_unpack_i16(open, n) * v_unpack_i16(c, n);
            y = v_scale_all(y, p->hidden_multiplier, p->hidden_shift) + p->hidden_zero;
            lstm_q8_store(to, i + n * CIRCLET_LANES, v_clamp_i32(y, low, high));
        }
    }
}

CIRCLET_INLINE void lstm_q8_project(const struct lstm_q8_params *p, void *const *x, char *scratch,
                                    const struct lstm_q8_to *to, const int vectors) {
    int32_t *projected = (int32_t *)(scratch + p->projected_offset);
    struct matvec_bounds bounds = {p->zero, p->low, p->high};
    matvec_q8(x[9], (uint8_t *)scratch + p->hidden_offset, (p->size.cells + 3) / 4, x[10],
              projected, p->size.projection_blocks, bounds, Q8_GENERAL, 0, vectors);
    for (int64_t i = 0; i < p->size.outputs; i += CIRCLET_LANES)
        lstm_q8_store(to, i, v_load_i32(projected + i));
}

/* From the products of a step with its inputs to its outputs. */
CIRCLET_INLINE void lstm_q8_step(const struct lstm_q8_params *p, void *const *x, char *scratch,
                                 int32_t *gates, int8_t *out, const int form, const int vectors,
                                 const int projection_vectors, const int has_input_gate,
                                 const int cell_bits, const int peephole, const int norm) {
    const struct matvec_bounds whole = {0, -32768, 32767};
    const struct lstm_sizes *s = &p->size;
    const int last = 2 + has_input_gate;
    int16_t *cell = (int16_t *)(scratch + p->cell_offset);
    const struct lstm_q8_to to = {out, s->outputs, (uint8_t *)scratch + p->state_offset};
    const struct lstm_q8_to hidden = {0, 0, (uint8_t *)scratch + p->hidden_offset};
    matvec_q8(x[3], to.words, (s->outputs + 3) / 4, x[4], gates, s->gate_blocks, whole, form, 1,
              vectors);
    for (int g = 0; g < last; g++)
        lstm_q8_gate(p, gates, g, x[8], cell, peephole && g != last - 1, norm);
    lstm_q8_cell(p, gates, cell, has_input_gate, cell_bits);
    lstm_q8_gate(p, gates, last, x[8], cell, peephole, norm);
    lstm_q8_hidden(p, gates + last * s->gate, cell, projection_vectors ? &hidden : &to, cell_bits);
    if (projection_vectors) lstm_q8_project(p, x, scratch, &to, projection_vectors);
}

/* Steps in turn. Products with inputs need no state: those of `ahead` steps are made together, which
 * read the weights once. Products of gates are scaled as `form` says (requantize.h). */
CIRCLET_INLINE void lstm_q8(const struct lstm_q8_params *p, void *const *x, void *scratch,
                            int64_t begin, int64_t end, const int vectors,
                            const int projection_vectors, const int has_input_gate,
                            const int cell_bits, const int peephole, const int norm,
                            const int ahead, const int form) {
    const struct matvec_bounds whole = {0, -32768, 32767};
    const struct matvec_pitch pitch = {p->in_pitch, p->gate_pitch};
    const struct lstm_sizes *s = &p->size;
    char *bytes = scratch;
    int32_t *gates = scratch;
    uint8_t *in_words = (uint8_t *)scratch + p->in_offset;
    int16_t *kept = (int16_t *)(bytes + p->cell_offset);
    const int64_t work = lstm_step_work(s), words = (s->inputs + 3) / 4;
    stop_count stop = stop_start(x[11]);
    for (int64_t batch = begin; batch < end; batch++) {
        int8_t *state = (int8_t *)x[6] + batch * s->outputs;
        int16_t *cell = (int16_t *)x[7] + batch * s->cells;
        const int8_t *in = (const int8_t *)x[0] + batch * s->in_batch;
        int8_t *out = (int8_t *)x[5] + batch * s->out_batch;
        matvec_words((uint8_t *)scratch + p->state_offset, state, s->outputs);
        __builtin_memcpy(kept, cell, (size_t)s->cells * sizeof *cell);
        for (int64_t step = 0; step < s->steps;) {
            const int64_t taken = s->steps - step < ahead ? 1 : ahead;
            for (int64_t i = 0; i < taken; i++, in += s->in_step)
                matvec_words(in_words + i * p->in_pitch, in, s->inputs);
            if (ahead > 1 && taken > 1)
                matvec_q8_columns(x[1], in_words, words, x[2], gates, s->gate_blocks, pitch, whole,
                                  form, 0, vectors, ahead);
            else
                matvec_q8(x[1], in_words, words, x[2], gates, s->gate_blocks, whole, form, 0,
                          vectors);
            for (int64_t i = 0; i < taken; i++, step++, out += s->out_step) {
                if (stop_after(&stop, work)) return;
                lstm_q8_step(p, x, scratch, gates + i * p->gate_pitch, out, form, vectors,
                             projection_vectors, has_input_gate, cell_bits, peephole, norm);
            }
        }
        __builtin_memcpy(state, out - s->out_step, (size_t)s->outputs);
        __builtin_memcpy(cell, kept, (size_t)s->cells * sizeof *cell);
    }
}

#endif
