/* LSTM over time in float32 with 8-bit weights: every vector is quantised before it meets them.
 *
 * Sums are less the zero point times the sum of weights, times both scales; records hold, for each
 * register of outputs, the weights' scales and sums. Gates, tables and tasks as in lstm.h.
 *
 * Operands: input, weights of the input, their records, weights of the state, their records, bias,
 * output, output state, cell state, tables, projection weights, their records, their bias.
 */
#ifndef CIRCLET_LSTM_HYBRID_H
#define CIRCLET_LSTM_HYBRID_H

#include "hybrid_q8.h"
#include "lstm.h"

struct lstm_hybrid_params {
    int64_t steps;
    int64_t in_batch;  /* input elements between elements of the batch */
    int64_t in_step;   /* input elements between steps */
    int64_t out_batch; /* the same for the output */
    int64_t out_step;
    int64_t inputs;    /* sizes of vectors */
    int64_t cells;
    int64_t outputs;
    int64_t gate;      /* cells rounded up to whole registers */
    int64_t gate_blocks;
    int64_t hidden;    /* where hidden values, projections and bytes start in scratch memory */
    int64_t projected;
    int64_t bytes;
    int64_t projection_blocks; /* 0 without a projection */
    int32_t asymmetric; /* whether quantised vectors have a zero point */
    float cell_clip;    /* infinity for none */
    float projection_clip;
};

#define LSTM_HYBRID_RECORD (2 * CIRCLET_LANES)

/* out = from + the product of a vector with a packed matrix; `bytes` is room for the vector. */
CIRCLET_INLINE void lstm_hybrid_product(const int8_t *w, const float *records, const float *x,
                                        int64_t n, uint8_t *bytes, const float *from, float *out,
                                        int64_t blocks, int asymmetric, const int vectors) {
    const struct hybrid_image_params row = {.in_pixel = n, .height = 1, .width = 1, .depth = n};
    struct hybrid_scale scale = hybrid_quantise(&row, x, bytes, asymmetric);
    CIRCLET_NO_UNROLL for (int64_t i = n; i & 3; i++) bytes[i] = 0;
    for (int64_t block = 0; block < blocks; block++) {
        vi acc[8];
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_zero_i32();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 4, w += vectors * CIRCLET_VBYTES) {
            vu8 data = v_splat_4u8(bytes + k);
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
                                const int projection_vectors, const int has_input,
                                const int activation, const int look, const int norm) {
    float *gates = scratch, *hidden = gates + p->hidden, *projected = gates + p->projected;
    uint8_t *bytes = (uint8_t *)scratch + p->bytes;
    const struct lstm_f32_params sizes = {
        .cells = p->cells, .gate = p->gate, .cell_clip = p->cell_clip};
    const float *tables = x[9];
    const int last = 2 + has_input;
    for (int64_t batch = begin; batch < end; batch++) {
        float *state = (float *)x[7] + batch * p->outputs;
        float *cell = (float *)x[8] + batch * p->cells;
        const float *in = (const float *)x[0] + batch * p->in_batch;
        float *out = (float *)x[6] + batch * p->out_batch;
        for (int64_t step = 0; step < p->steps; step++, in += p->in_step, out += p->out_step) {
            lstm_hybrid_product(x[1], x[2], in, p->inputs, bytes, x[5], gates, p->gate_blocks,
                                p->asymmetric, vectors);
            lstm_hybrid_product(x[3], x[4], state, p->outputs, bytes, gates, gates,
                                p->gate_blocks, p->asymmetric, vectors);
            for (int g = 0; g < last; g++)
                lstm_f32_gate(&sizes, gates + g * p->gate, tables + 3 * g * p->gate, cell,
                              look && g != last - 1, norm);
            lstm_f32_cell(&sizes, gates, cell, has_input, activation);
            float *opened = gates + last * p->gate;
            lstm_f32_gate(&sizes, opened, tables + 3 * last * p->gate, cell, look, norm);
            lstm_f32_hidden(&sizes, opened, cell, hidden, activation);
            if (projection_vectors)
                lstm_hybrid_product(x[10], x[11], hidden, p->cells, bytes, x[12], projected,
                                    p->projection_blocks, p->asymmetric, projection_vectors);
            lstm_f32_give(state, out, projection_vectors ? projected : hidden, p->outputs,
                          p->projection_clip);
        }
    }
}

#endif
