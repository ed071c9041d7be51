/* LSTM cells whose weights see the states of all elements of the batch as what is left of them in
 * 8 bits by one scale, which each step finds: the elements go through a step together.
 *
 * A task is a direction. Operands and parameters are those of recurrent_f32.h; in scratch memory a
 * state, a cell and what the weights see of the state follow each other for each element.
 */
#ifndef CIRCLET_RECURRENT_TOGETHER_H
#define CIRCLET_RECURRENT_TOGETHER_H

#include "recurrent_f32.h"

struct recurrent_together_params {
    struct recurrent_f32_params layer;
};

/* What one element of the batch is made of. */
struct together_element {
    float *state, *cell, *seen;
    int64_t kept, length;
};

CIRCLET_INLINE struct together_element together_element(const struct recurrent_f32_params *p,
                                                        void *const *x, float *scratch,
                                                        int64_t direction, int64_t batch) {
    const int64_t steps = p->lstm.size.steps;
    float *own = scratch + batch * 3 * p->lstm.size.gate;
    int64_t kept = direction * p->state_direction + batch * p->state_batch;
    int64_t length = x[4] ? ((const int32_t *)x[4])[batch] : steps;
    length = s_min_i64(length < 0 ? 0 : length, steps);
    return (struct together_element){own + p->state, own + p->cell, own + p->candidate, kept, length};
}

CIRCLET_INLINE struct recurrent_scale together_scale(const struct recurrent_f32_params *p,
                                                     const float *scratch) {
    vf least = v_zero(), most = v_zero();
    for (int64_t batch = 0; batch < p->batches; batch++) {
        const float *state = scratch + batch * 3 * p->lstm.size.gate + p->state;
        recurrent_widen(&least, &most, state, p->lstm.size.cells);
    }
    return recurrent_scale_of(least, most);
}

CIRCLET_INLINE void recurrent_together(const struct recurrent_together_params *params,
                                       void *const *x, void *scratch, int64_t begin, int64_t end,
                                       const int vectors, const int activation,
                                       const int peephole, const int clips) {
    const struct recurrent_f32_params *p = &params->layer;
    const struct lstm_sizes *s = &p->lstm.size;
    float *gates = scratch;
    const int64_t work = (s->cells + 64) * 4 * s->gate / 16;
    stop_count stop = stop_start(x[10]);
    for (int64_t direction = begin; direction < end; direction++) {
        const float *weights = (const float *)x[1] + direction * p->weights_direction;
        const float *tables = (const float *)x[3] + direction * p->table_direction;
        const float *in = (const float *)x[0] + direction * p->in_direction;
        float *out = (float *)x[7] + direction * p->out_direction;
        for (int64_t batch = 0; batch < p->batches; batch++) {
            struct together_element e = together_element(p, x, scratch, direction, batch);
            recurrent_begin(e.state, x[5], e.kept, s->cells);
            recurrent_begin(e.cell, x[6], e.kept, s->cells);
        }
        for (int64_t step = 0; step < s->steps; step++) {
            struct recurrent_scale scale = together_scale(p, scratch);
            for (int64_t batch = 0; batch < p->batches; batch++) {
                struct together_element e = together_element(p, x, scratch, direction, batch);
                float *to = out + batch * s->out_batch;
                if (step >= e.length) {
                    recurrent_copy(to + step * s->out_step, 0, s->cells);
                    continue;
                }
                if (stop_after(&stop, work)) return;
                int64_t time = p->turned >> direction & 1 ? e.length - 1 - step : step;
                recurrent_rounded(e.seen, e.state, s->cells, scale);
                matvec_f32(weights, e.seen, s->cells, e.seen, 0, gates, s->gate_blocks, vectors);
                recurrent_join(s, gates, in + batch * s->in_batch + time * s->in_step, 4);
                recurrent_lstm(p, gates, tables, e.state, e.cell, activation, peephole, clips);
                recurrent_copy(to + time * s->out_step, e.state, s->cells);
            }
        }
        for (int64_t batch = 0; batch < p->batches; batch++) {
            struct together_element e = together_element(p, x, scratch, direction, batch);
            recurrent_keep(x[8], e.kept, e.state, s->cells);
            recurrent_keep(x[9], e.kept, e.cell, s->cells);
        }
    }
}

#endif
