/* Rows divided by their length in float32; lengths below 1e-6 count as that, as in LiteRT. */
#ifndef CIRCLET_L2_NORM_H
#define CIRCLET_L2_NORM_H

#include "vmath.h"

struct l2_norm_params {
    int64_t rows;
    int64_t rows_per_task;
    int64_t count; /* elements of a row */
};

CIRCLET_INLINE void l2_norm_row(const float *x, float *y, int64_t count) {
    vf sum = v_zero();
    int64_t i = 0, left = count % CIRCLET_LANES;
    for (; i < count - left; i += CIRCLET_LANES) sum = v_fma(v_load(x + i), v_load(x + i), sum);
    vf tail = v_load_n(x + i, left);
    float squares = v_fold_add(v_fma(tail, tail, sum));
    vf length = v_max(v_splat(1e-6f), v_sqrt(v_splat(squares))); /* in this order NaN stays */
    for (i = 0; i < count - left; i += CIRCLET_LANES) v_store(y + i, v_load(x + i) / length);
    v_store_n(y + i, tail / length, left);
}

/* Operands: source, result. */
CIRCLET_INLINE void l2_norm(const struct l2_norm_params *p, void *const *operands, void *scratch,
                            int64_t begin, int64_t end) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++)
        l2_norm_row((const float *)operands[0] + row * p->count,
                    (float *)operands[1] + row * p->count, p->count);
}

#endif
