/* What products of stacks of matrices share, whatever their type. */
#ifndef CIRCLET_MATMUL_H
#define CIRCLET_MATMUL_H

#include "rows.h"

struct matmul_sizes {
    int64_t rows;     /* of the result */
    int64_t depth;    /* elements of a sum */
    int64_t columns;  /* of the result */
    int64_t blocks;   /* of columns */
    int64_t x_row;    /* elements of the left operand between rows */
    int64_t x_depth;  /* and between elements of a sum */
    int64_t y_depth;  /* elements of the right operand between elements of a sum */
    int64_t y_column; /* and between columns */
    int64_t sizes[6]; /* of the stack */
    int64_t x[7];     /* elements of the left operand between matrices */
    int64_t y[7];     /* elements of the right operand between matrices */
};

/* A block of columns of one product: its first column, and where it starts in each operand. */
struct matmul_place {
    int64_t block, first, x, y, out;
};

CIRCLET_INLINE struct matmul_place matmul_find(const struct matmul_sizes *s, int64_t task,
                                               int64_t width) {
    int64_t batch = task / s->blocks, block = task % s->blocks, first = block * width;
    return (struct matmul_place){
        .block = block,
        .first = first,
        .x = rows_offset(batch, s->sizes, s->x),
        .y = rows_offset(batch, s->sizes, s->y) + first * s->y_column,
        .out = batch * s->rows * s->columns + first,
    };
}

#endif
