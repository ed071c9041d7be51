/* LSTM over time in float32 with 8-bit weights: every vector is quantised before it meets them, by
 * its own range, as EvalHybrid of LiteRT's lstm_eval.cc does. Gates, tables and tasks as in lstm.h.
 *
 * Operands: input, weights of the input, their records, weights of the state, their records, bias,
 * output, output state, cell state, tables, projection weights, their records, their bias.
 */
#ifndef CIRCLET_LSTM_HYBRID_H
#define CIRCLET_LSTM_HYBRID_H

#include "lstm.h"
#include "matvec_hybrid.h"

struct lstm_hybrid_params {
    struct lstm_f32_params floats;
    int64_t quantised; /* where quantised vectors start in scratch memory, in bytes */
    int32_t asymmetric; /* whether they have a zero point */
};

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
            matvec_hybrid(x[1], x[2], in, s->inputs, room, x[5], gates, s->gate_blocks,
                          p->asymmetric, vectors);
            matvec_hybrid(x[3], x[4], state, s->outputs, room, gates, gates, s->gate_blocks,
                          p->asymmetric, vectors);
            lstm_f32_step(f, gates, x[9], cell, hidden, has_input_gate, activation, peephole, norm);
            if (projection_vectors)
                matvec_hybrid(x[10], x[11], hidden, s->cells, room, x[12], projected,
                              s->projection_blocks, p->asymmetric, projection_vectors);
            lstm_f32_store(state, out, projection_vectors ? projected : hidden, s->outputs,
                          f->projection_clip);
        }
    }
}

#endif
