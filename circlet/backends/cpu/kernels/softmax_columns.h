/* Softmax and log-softmax down columns of floats. */
#ifndef CIRCLET_SOFTMAX_COLUMNS_H
#define CIRCLET_SOFTMAX_COLUMNS_H

#include "columns.h"
#include "softmax_f32.h"

struct softmax_columns_params {
    struct columns in;
    float beta; /* factor of the exponent */
};

CIRCLET_INLINE void softmax_columns_block(const void *params, float *to, const float *from,
                                          int64_t n, const int vectors, const int is_log) {
    const struct softmax_columns_params *p = params;
    const int64_t count = p->in.count, columns = p->in.columns;
    const vf beta = v_splat(p->beta);
    vf best[COLUMN_VECTORS], sum[COLUMN_VECTORS];
    CIRCLET_UNROLL for (int u = 0; u < vectors; u++)
        best[u] = v_splat(-__builtin_inff()), sum[u] = v_zero();
    for (int64_t k = 0; k < count; k++)
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
            const float *x = from + k * columns + u * CIRCLET_LANES;
            best[u] = v_max(element_load_f32(x, n, ELEMENT_F32), best[u]);
        }
    for (int64_t k = 0; k < count; k++)
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
            int64_t i = k * columns + u * CIRCLET_LANES;
            vf v = softmax_term(element_load_f32(from + i, n, ELEMENT_F32), best[u], beta);
            if (!is_log) element_store_f32(to + i, v, n);
            sum[u] += v;
        }
    CIRCLET_UNROLL for (int u = 0; u < vectors; u++)
        sum[u] = is_log ? v_log(sum[u]) : v_splat(1.0f) / sum[u];
    for (int64_t k = 0; k < count; k++)
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
            int64_t i = k * columns + u * CIRCLET_LANES;
            vf v = element_load_f32((is_log ? from : to) + i, n, ELEMENT_F32);
            element_store_f32(to + i, is_log ? v - best[u] - sum[u] : v * sum[u], n);
        }
}

/* Operands: source, result. */
CIRCLET_INLINE void softmax_columns(const struct softmax_columns_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end,
                                    const int is_log) {
    (void)scratch;
    for_columns(&p->in, p, x, begin, end, softmax_columns_block, is_log);
}

#endif
