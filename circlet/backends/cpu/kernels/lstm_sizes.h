/* Sizes and strides of an LSTM over time, in every type.
 *
 * Gates stand in the order input (unless HAS_INPUT is 0), forget, cell, output, each of `gate`
 * lanes. Rows of `tables` for each gate: weights of the cell state, norm coefficients, bias after
 * the norm.
 */
#ifndef CIRCLET_LSTM_SIZES_H
#define CIRCLET_LSTM_SIZES_H

#include <stdint.h>

struct lstm_sizes {
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
    int64_t projection_blocks; /* 0 without a projection */
};

#endif
