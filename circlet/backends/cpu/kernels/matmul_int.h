/* Products of stacks of integer matrices; a task is one block of columns of one product. */
#ifndef CIRCLET_MATMUL_INT_H
#define CIRCLET_MATMUL_INT_H

#include "rows.h"
#include "sum_int.h"

struct matmul_int_params {
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
    int32_t x_zero;   /* zero points */
    int32_t y_zero;
    int32_t zero;
    int32_t low;      /* smallest result */
    int32_t high;     /* largest result */
};

CIRCLET_INLINE void matmul_int_pack(const struct matmul_int_params *p, int16_t *to, const char *y,
                                    int64_t count, int type, const int NV) {
    int64_t size = element_size(type);
    for (int64_t k = 0; k < p->depth; k++, to += NV * CIRCLET_LANES) {
        const char *from = y + k * p->y_depth * size;
        for (int64_t n = 0; n < count; n++)
            to[n] = (int16_t)(sum_int_element(from + n * p->y_column * size, type) - p->y_zero);
        for (int64_t n = count; n < NV * CIRCLET_LANES; n++) to[n] = 0;
    }
}

/* Operands: left, right, records of the columns, result. */
CIRCLET_INLINE void matmul_int(const struct matmul_int_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, int x_type, int y_type,
                               const int NV, const int FLUSH, const int WIDE) {
    const int width = NV * CIRCLET_LANES;
    int16_t *panel = scratch;
    int64_t size = element_size(x_type);
    struct sum_int_bounds bounds = {p->zero, p->low, p->high};
    for (int64_t task = begin; task < end; task++) {
        int64_t batch = task / p->blocks, block = task % p->blocks, first = block * width;
        int64_t left = p->columns - first;
        const char *x = (const char *)operands[0] + rows_offset(batch, p->sizes, p->x) * size;
        const char *y = (const char *)operands[1];
        y += (rows_offset(batch, p->sizes, p->y) + first * p->y_column) * element_size(y_type);
        const int64_t *record = (const int64_t *)operands[2] + block * SUM_INT_RECORD * width;
        char *out = (char *)operands[3] + (batch * p->rows * p->columns + first) * size;
        matmul_int_pack(p, panel, y, s_min_i64(left, width), y_type, NV);
        for (int64_t m = 0; m < p->rows; m++) {
            wl acc[4];
            CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[v] = v_splat_i64(0);
            sum_int_run(acc, x + m * p->x_row * size, p->x_depth * size, x_type, p->x_zero,
                        p->depth, panel, NV, FLUSH);
            sum_int_store_all(out + m * p->columns * size, acc, record, bounds, left, x_type, NV,
                              WIDE);
        }
    }
}

#endif
