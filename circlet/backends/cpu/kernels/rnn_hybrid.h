/* Plain recurrent cells over time in float32 with 8-bit weights: one task for each element of the
 * batch, as each step needs the state that the one before left.
 *
 * state = output = activation(bias + input weights + auxiliary input weights + state weights), each
 * vector quantised by its own range, as in LiteRT's HybridRnnBatchStep.
 *
 * Operands: input, its packed weights, their records, weights of the state, their records, bias,
 * auxiliary input or null, its weights, their records, state, output, circlet_stop.
 */
#ifndef CIRCLET_RNN_HYBRID_H
#define CIRCLET_RNN_HYBRID_H

#include "lstm.h"
#include "matvec_hybrid.h"

struct rnn_hybrid_params {
    int64_t steps;
    int64_t turns; /* how often the sequence is gone through */
    int64_t units;
    int64_t blocks;
    int64_t inputs; /* sizes of vectors */
    int64_t aux;
    int64_t in_batch; /* floats between elements of the batch, and between steps */
    int64_t in_step;
    int64_t aux_batch;
    int64_t aux_step;
    int64_t out_batch;
    int64_t out_step;
    int64_t quantised; /* where quantised vectors start in scratch memory, in bytes */
    int32_t asymmetric;
};

CIRCLET_INLINE void rnn_hybrid_store(const struct rnn_hybrid_params *p, const float *sums,
                                     float *state, float *out, const int activation) {
    for (int64_t i = 0; i < p->units; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, p->units - i);
        vf y = lstm_activate(v_load(sums + i), activation);
        element_store_f32(state + i, y, n);
        element_store_f32(out + i, y, n);
    }
}

CIRCLET_INLINE void rnn_hybrid(const struct rnn_hybrid_params *p, void *const *x, void *scratch,
                               int64_t begin, int64_t end, const int vectors,
                               const int activation) {
    float *sums = scratch;
    uint8_t *room = (uint8_t *)scratch + p->quantised;
    const int64_t work = (p->inputs + p->aux + p->units + 64) * p->units / 16;
    stop_count stop = stop_start(x[11]);
    for (int64_t task = begin * p->turns; task < end * p->turns; task++) {
        int64_t batch = task / p->turns;
        const float *in = (const float *)x[0] + batch * p->in_batch;
        const float *aux = x[6] ? (const float *)x[6] + batch * p->aux_batch : 0;
        float *state = (float *)x[9] + batch * p->units;
        float *out = (float *)x[10] + batch * p->out_batch;
        for (int64_t step = 0; step < p->steps; step++) {
            if (stop_after(&stop, work)) return;
            matvec_hybrid(x[1], x[2], in + step * p->in_step, p->inputs, room, x[5], sums,
                          p->blocks, p->asymmetric, vectors);
            if (aux)
                matvec_hybrid(x[7], x[8], aux + step * p->aux_step, p->aux, room, sums, sums,
                              p->blocks, p->asymmetric, vectors);
            matvec_hybrid(x[3], x[4], state, p->units, room, sums, sums, p->blocks,
                          p->asymmetric, vectors);
            rnn_hybrid_store(p, sums, state, out + step * p->out_step, activation);
        }
    }
}

#endif
