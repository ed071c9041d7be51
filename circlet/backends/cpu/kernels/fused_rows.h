/* Generated passes over rows of any number of strided operands. */
#ifndef CIRCLET_FUSED_ROWS_H
#define CIRCLET_FUSED_ROWS_H

#include "elementwise.h"

struct fused_rows_params {
    int64_t rows;
    int64_t rows_per_task;
    int64_t inner;       /* elements of a row */
    int64_t sizes[6];    /* outer sizes */
    int64_t strides[84]; /* bytes, of each operand in turn, from row to row */
    int32_t ints[32];    /* the expressions' parameters */
    float floats[16];    /* the expressions' parameters */
};

/* Runs the first pass over a row. */
typedef void (*fused_rows_first)(const elementwise_values *v, char *const *at, void *scratch,
                                 vf *row, int64_t count);
/* Runs all other passes over a row, and the first one over `begun` elements of the next. */
typedef void (*fused_rows_others)(const elementwise_values *v, char *const *at, void *scratch,
                                  vf *row, int64_t count, char *const *next, vf *ahead,
                                  int64_t begun);

CIRCLET_INLINE void fused_rows_place(const struct fused_rows_params *p, void *const *x,
                                     int64_t row, char **at, int operands) {
    CIRCLET_UNROLL for (int k = 0; k < operands; k++)
        at[k] = (char *)x[k] + rows_offset(row, p->sizes, p->strides + k * ROWS_STRIDES);
}

/* Operands: the inputs, then the results that are stored. `values` are those of a whole row. */
CIRCLET_INLINE void fused_rows(const struct fused_rows_params *p, void *const *x, void *scratch,
                               int64_t begin, int64_t end, int operands, int values,
                               fused_rows_first first, fused_rows_others others) {
    elementwise_values v = elementwise_copied(p->ints, p->floats);
    char *at[ELEMENTWISE_OPERANDS], *next[ELEMENTWISE_OPERANDS];
    vf row[ROW_PASS_VALUES], ahead[ROW_PASS_VALUES];
    int64_t i = begin * p->rows_per_task, last = s_min_i64(end * p->rows_per_task, p->rows);
    fused_rows_place(p, x, i, at, operands);
    first(&v, at, scratch, row, p->inner);
    for (; i < last; i++) {
        int64_t run = rows_run(i, last, p->sizes);
        CIRCLET_UNROLL for (int k = 0; k < operands; k++)
            next[k] = at[k] + (run > 1 ? p->strides[k * ROWS_STRIDES + 5] : 0);
        if (run == 1 && i + 1 < last) fused_rows_place(p, x, i + 1, next, operands);
        others(&v, at, scratch, row, p->inner, next, ahead, i + 1 < last ? p->inner : 0);
        CIRCLET_UNROLL for (int k = 0; k < operands; k++) at[k] = next[k];
        CIRCLET_UNROLL for (int k = 0; k < values; k++) row[k] = ahead[k];
    }
}

#endif
