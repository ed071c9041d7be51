/* Sizes and strides of an LSTM over time, in every type.
 *
 * Gates stand in the order input, forget, cell, output, each of `gate` lanes, so that one product
 * gives all of them. Without an input gate it is 1 - forget (CIFG, coupled input and forget gates).
 * Rows of `tables` for each gate: peephole weights (of the cell state), coefficients of the layer
 * norm, bias after the norm. With a norm the biases come after it, as in LiteRT's lstm_eval.cc.
 */
#ifndef CIRCLET_LSTM_SIZES_H
#define CIRCLET_LSTM_SIZES_H

#include "stop.h"

struct lstm_sizes {
    int64_t steps;
    int64_t in_batch;  /* input elements between elements of the batch */
    int64_t in_step;   /* input elements between steps */
    int64_t out_batch; /* the same for the output */
    int64_t out_step;
    int64_t inputs;    /* sizes of vectors */
    int64_t cells;
    int64_t outputs;
    int64_t gate;      /* cells rounded up to whole registers: no gate shares one with another */
    int64_t gate_blocks;
    int64_t projection_blocks; /* 0 without a projection */
};

/* Of a step, in units of stop.h: vectors of products, and functions of the gates. */
static inline int64_t lstm_step_work(const struct lstm_sizes *s) {
    return (s->inputs + s->outputs + 64) * s->gate / 16;
}

#endif
