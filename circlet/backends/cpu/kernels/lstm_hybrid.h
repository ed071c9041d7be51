/* LSTM over time in float32 with 8-bit weights: every vector is quantised before it meets them, by
 * its own range, as EvalHybrid of LiteRT's lstm_eval.cc does.
 *
 * sum((x - zero) * w) = sum(x * w) - zero * sum(w): records hold, for each register of outputs, the
 * weights' scales and sums, and the difference is taken once per output and exactly, in integers.
 * Gates, tables and tasks as in lstm.h.
 *
 * Operands: input, weights of the input, their records, weights of the state, their records, bias,
 * output, output state, cell state, tables, projection weights, their records, their bias.
 */
#ifndef CIRCLET_LSTM_HYBRID_H
#define CIRCLET_LSTM_HYBRID_H

#include "hybrid_q8.h"
#include "lstm.h"

struct lstm_hybrid_params {
    struct lstm_f32_params floats;
    int64_t quantised; /* where quantised vectors start in scratch memory, in bytes */
    int32_t asymmetric; /* whether they have a zero point */
};

#define LSTM_HYBRID_RECORD (2 * CIRCLET_LANES)

/* out = from + the product of a vector with a packed matrix; `room` is for the
 * quantised vector; the dot product takes four elements at a time, so zeros follow it. */
CIRCLET_INLINE void lstm_hybrid_product(const int8_t *w, const float *records, const float *x,
                                        int64_t n, uint8_t *room, const float *from, float *out,
                                        int64_t blocks, int asymmetric, const int vectors) {
    const struct hybrid_image_params row = {.in.pixel = n, .height = 1, .width = 1, .depth = n};
    struct hybrid_scale scale = hybrid_quantise(&row, x, room, asymmetric);
    CIRCLET_NO_UNROLL for (int64_t i = n; i & 3; i++) room[i] = 0;
    for (int64_t block = 0; block < blocks; block++) {
        vi acc[8];
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_zero_i32();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 4, w += vectors * CIRCLET_VBYTES) {
            vu8 data = v_splat_4u8(room + k);
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
                acc[v] = v_dot4(acc[v], data, v_load_i8(w + v * CIRCLET_VBYTES));
        }
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
            vi sums = v_load_i32((const int32_t *)records + CIRCLET_LANES);
            vf total = v_to_f32(acc[v] - sums * scale.zero);
            vf factor = v_load(records) * v_splat(scale.scale);
            v_store(out, v_fma(total, factor, v_load(from)));
            records += LSTM_HYBRID_RECORD, out += CIRCLET_LANES, from += CIRCLET_LANES;
        }
    }
}

CIRCLET_INLINE void lstm_hybrid(const struct lstm_hybrid_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int vectors,
                                const int projection_vectors, const int has_input_gate,
                                const int activation, const int peephole, const int norm) {
    const struct lstm_f32_params *f = &p->floats;
    const struct lstm_sizes *s = &f->size;
    float *gates = scratch, *hidden = gates + f->hidden, *projected = gates + f->projected;
    uint8_t *room = (uint8_t *)scratch + p->quantised;
    const int64_t work = lstm_step_work(s);
    stop_count stop = stop_start(x[13]);
    for (int64_t batch = begin; batch < end; batch++) {
        float *state = (float *)x[7] + batch * s->outputs;
        float *cell = (float *)x[8] + batch * s->cells;
        const float *in = (const float *)x[0] + batch * s->in_batch;
        float *out = (float *)x[6] + batch * s->out_batch;
        for (int64_t step = 0; step < s->steps; step++, in += s->in_step, out += s->out_step) {
            if (stop_after(&stop, work)) return;
            lstm_hybrid_product(x[1], x[2], in, s->inputs, room, x[5], gates, s->gate_blocks,
                                p->asymmetric, vectors);
            lstm_hybrid_product(x[3], x[4], state, s->outputs, room, gates, gates,
                                s->gate_blocks, p->asymmetric, vectors);
            lstm_f32_step(f, gates, x[9], cell, hidden, has_input_gate, activation, peephole, norm);
            if (projection_vectors)
                lstm_hybrid_product(x[10], x[11], hidden, s->cells, room, x[12], projected,
                                    s->projection_blocks, p->asymmetric, projection_vectors);
            lstm_f32_store(state, out, projection_vectors ? projected : hidden, s->outputs,
                          f->projection_clip);
        }
    }
}

#endif
