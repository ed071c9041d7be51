/* LSTM cells over 8-bit weights, which see the states of all elements of the batch as bytes by one
 * scale, which each step finds: the elements go through a step together.
 *
 * A task is a direction. Operands and parameters are those of recurrent_f32.h, but that the weights
 * of the state are bytes, packed as matvec.h reads them, and that what cross_sums.h asks of them
 * stands in place of those of the reset state: zero points, scales, sums and biases. In scratch
 * memory the gates of all elements come first, then a state and a cell of each.
 */
#ifndef CIRCLET_RECURRENT_TOGETHER_H
#define CIRCLET_RECURRENT_TOGETHER_H

#include "cross_sums.h"
#include "hybrid_q8.h"
#include "recurrent_f32.h"

struct recurrent_together_params {
    struct recurrent_f32_params layer;
    int64_t words;   /* of four bytes of a state */
    int64_t records; /* where those of states start in scratch memory, in floats */
};

/* Floats as bytes that v_dot4 wants. */
CIRCLET_INLINE struct stored_row together_bytes(uint8_t *to, const float *from, int64_t count,
                                                struct recurrent_scale as) {
    const int32_t flip = CIRCLET_DOT_SIGNED ? 128 : 0;
    const int32_t zero = (int32_t)as.zero[0] - flip;
    vi sum = v_zero_i32();
    RECURRENT_EACH(i, n, count) {
        vf whole = v_round_even(element_load_f32(from + i, n, ELEMENT_F32) / as.step) + as.zero;
        vi byte = v_to_i32(v_clamp(whole, v_zero(), v_splat(255.0f))) - flip;
        element_store_i32(to + i, byte, n, ELEMENT_U8);
        sum += byte;
    }
    /* Lanes behind the last float hold the zero point. */
    int32_t behind = (int32_t)(-count & (CIRCLET_LANES - 1));
    return (struct stored_row){v_fold_add_i32(sum) - behind * zero, zero};
}

struct recurrent_stored_params {
    int64_t count;
};

/* Operands: floats, bytes by one scale and zero point, these. One task. */
CIRCLET_INLINE void recurrent_stored(const struct recurrent_stored_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end) {
    (void)scratch, (void)begin, (void)end;
    vf least = v_zero(), most = v_zero();
    recurrent_widen(&least, &most, x[0], p->count);
    struct recurrent_scale as = recurrent_scale_of(least, most);
    struct stored_row made = together_bytes(x[1], x[0], p->count, as);
    *(struct hybrid_scale *)x[2] = (struct hybrid_scale){as.step[0], made.zero};
}

/* What one element of the batch is made of. */
struct together_element {
    float *state, *cell;
    int64_t kept, length;
};

CIRCLET_INLINE struct together_element together_element(const struct recurrent_f32_params *p,
                                                        void *const *x, float *scratch,
                                                        int64_t direction, int64_t batch) {
    const int64_t steps = p->lstm.size.steps;
    float *own = scratch + batch * 2 * p->lstm.size.gate;
    int64_t kept = direction * p->state_direction + batch * p->state_batch;
    int64_t length = x[4] ? ((const int32_t *)x[4])[batch] : steps;
    length = s_min_i64(length < 0 ? 0 : length, steps);
    return (struct together_element){own + p->state, own + p->cell, kept, length};
}

CIRCLET_INLINE struct recurrent_scale together_scale(const struct recurrent_f32_params *p,
                                                     const float *scratch) {
    vf least = v_zero(), most = v_zero();
    for (int64_t batch = 0; batch < p->batches; batch++) {
        const float *state = scratch + batch * 2 * p->lstm.size.gate + p->state;
        recurrent_widen(&least, &most, state, p->lstm.size.cells);
    }
    return recurrent_scale_of(least, most);
}

/* The gates of MR elements from the bytes of their states: sums, scaled, and biases. */
CIRCLET_INLINE void together_products(const struct recurrent_together_params *p, const int8_t *w,
                                      const int32_t *qparams, const uint8_t *bytes,
                                      const struct stored_row *rows, vf step, float *gates,
                                      const int MR, const int NV) {
    const int64_t width = NV * CIRCLET_LANES, slots = p->layer.lstm.size.gate_blocks * width;
    for (int64_t block = 0; block < p->layer.lstm.size.gate_blocks; block++) {
        vi acc[32];
        cross_sums_start((vu *)acc, qparams, rows, 0, 1, MR, NV);
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < p->words; k++, w += NV * CIRCLET_VBYTES) {
            vi8 weights[8];
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                weights[v] = v_load_i8(w + v * CIRCLET_VBYTES);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                vu8 data = v_splat_4u8(bytes + (m * p->words + k) * 4);
                CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                    acc[m * NV + v] = v_dot4(acc[m * NV + v], data, weights[v]);
            }
        }
        CIRCLET_UNROLL for (int v = 0; v < NV; v++, qparams += Q8_QPARAM) {
            vf scale = v_load((const float *)qparams + CIRCLET_LANES) * step;
            vf bias = v_load((const float *)qparams + 3 * CIRCLET_LANES);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                v_store(gates + m * slots + block * width + v * CIRCLET_LANES,
                        v_fma(v_to_f32(acc[m * NV + v]), scale, bias));
        }
    }
}

/* The gates of all elements, whose states become bytes first. */
CIRCLET_INLINE void together_step(const struct recurrent_together_params *params,
                                  const int8_t *weights, const int32_t *qparams, float *scratch,
                                  const int MR, const int NV) {
    const struct recurrent_f32_params *p = &params->layer;
    const struct lstm_sizes *s = &p->lstm.size;
    const int64_t stride = params->words * 4, slots = s->gate_blocks * NV * CIRCLET_LANES;
    uint8_t *bytes = (uint8_t *)(scratch + p->candidate);
    struct stored_row *rows = (struct stored_row *)(scratch + params->records);
    struct recurrent_scale scale = together_scale(p, scratch);
    for (int64_t batch = 0; batch < p->batches; batch++)
        rows[batch] = together_bytes(bytes + batch * stride,
                                     scratch + p->state + batch * 2 * s->gate, s->cells, scale);
    for (int64_t next = 0; next < p->batches; next += MR) {
        int64_t batch = s_min_i64(next, p->batches - MR);
        together_products(params, weights, qparams, bytes + batch * stride, rows + batch,
                          scale.step, scratch + batch * slots, MR, NV);
    }
}

CIRCLET_INLINE void recurrent_together(const struct recurrent_together_params *params,
                                       void *const *x, void *scratch, int64_t begin, int64_t end,
                                       const int MR, const int vectors, const int activation,
                                       const int peephole, const int clips) {
    const struct recurrent_f32_params *p = &params->layer;
    const struct lstm_sizes *s = &p->lstm.size;
    const int64_t slots = s->gate_blocks * vectors * CIRCLET_LANES;
    const int64_t work = (s->cells + 64) * 4 * s->gate / 16 * p->batches;
    stop_count stop = stop_start(x[10]);
    for (int64_t direction = begin; direction < end; direction++) {
        const int8_t *weights = (const int8_t *)x[1] + direction * p->weights_direction;
        const int32_t *qparams = (const int32_t *)x[2] + direction * p->reset_direction;
        const float *tables = (const float *)x[3] + direction * p->table_direction;
        const float *in = (const float *)x[0] + direction * p->in_direction;
        float *out = (float *)x[7] + direction * p->out_direction;
        for (int64_t batch = 0; batch < p->batches; batch++) {
            struct together_element e = together_element(p, x, scratch, direction, batch);
            recurrent_begin(e.state, x[5], e.kept, s->cells);
            recurrent_begin(e.cell, x[6], e.kept, s->cells);
        }
        for (int64_t step = 0; step < s->steps; step++) {
            if (stop_after(&stop, work)) return;
            together_step(params, weights, qparams, scratch, MR, vectors);
            for (int64_t batch = 0; batch < p->batches; batch++) {
                struct together_element e = together_element(p, x, scratch, direction, batch);
                float *to = out + batch * s->out_batch, *gates = (float *)scratch + batch * slots;
                if (step >= e.length) {
                    recurrent_copy(to + step * s->out_step, 0, s->cells);
                    continue;
                }
                int64_t time = p->turned >> direction & 1 ? e.length - 1 - step : step;
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
