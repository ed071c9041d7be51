/* Stacks of float rows, quantised each by itself, times constant matrices of 8 bits. */
#ifndef CIRCLET_MATMUL_HYBRID_H
#define CIRCLET_MATMUL_HYBRID_H

#include "hybrid_q8.h"
#include "rows.h"

struct matmul_hybrid_params {
    int64_t rows;     /* of one matrix */
    int64_t depth;    /* elements of a row */
    int64_t columns;  /* of one matrix */
    int64_t sizes[6]; /* of the stack */
    int64_t x[7];     /* elements between the left matrices along the stack */
    int64_t y[7];     /* bytes between the right ones */
};

/* The sum of products of a quantised row and a column. */
CIRCLET_INLINE int32_t matmul_hybrid_sum(const int8_t *x, const int8_t *y, int64_t n) {
    int32_t sum = 0;
    for (int64_t k = 0; k < n; k++) sum += x[k] * y[k];
    return sum;
}

/* Operands: left, columns of the right matrices one after the other, scale of each column, sums of
 * each column, result. A task is a row. */
CIRCLET_INLINE void matmul_hybrid(const struct matmul_hybrid_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end,
                                  const int asymmetric) {
    int8_t *row = scratch;
    const float *scales = operands[2];
    for (int64_t task = begin; task < end; task++) {
        int64_t matrix = task / p->rows, at = rows_offset(matrix, p->sizes, p->y);
        const float *x = operands[0];
        x += rows_offset(matrix, p->sizes, p->x) + task % p->rows * p->depth;
        const int8_t *y = (const int8_t *)operands[1] + at;
        const int32_t *sums = (const int32_t *)operands[3] + at / p->depth;
        float *to = (float *)operands[4] + task * p->columns;
        struct hybrid_range range;
        CIRCLET_UNROLL for (int c = 0; c < HYBRID_CHAINS; c++)
            range.least[c] = range.most[c] = v_splat(0.0f);
        hybrid_row_range(&range, x, p->depth, asymmetric);
        struct hybrid_factors f = hybrid_fold(&range, asymmetric);
        hybrid_quantise_row(x, p->depth, (uint8_t *)row, f, asymmetric);
        for (int64_t k = 0; k < p->depth; k++) row[k] = (int8_t)(row[k] ^ HYBRID_STORED);
        for (int64_t c = 0; c < p->columns; c++) {
            int32_t sum = matmul_hybrid_sum(row, y + c * p->depth, p->depth) - f.zero * sums[c];
            to[c] = (float)sum * (f.scale * scales[c]);
        }
    }
}

#endif
