/* Softmax down columns of floats, which lie side by side: a few vectors of columns at a time. */
#ifndef CIRCLET_SOFTMAX_COLUMNS_H
#define CIRCLET_SOFTMAX_COLUMNS_H

#include "softmax_f32.h"

struct softmax_columns_params {
    int64_t blocks;          /* of columns, in all */
    int64_t blocks_per_task; /* of a task */
    int64_t plane_blocks;    /* of one plane */
    int64_t columns;         /* of a plane, and so between the elements of a column */
    int64_t count;           /* elements of a column */
    float beta;              /* factor of the exponent */
};

/* Columns of `vectors` vectors, each of which has n elements. */
CIRCLET_INLINE void softmax_columns_block(const struct softmax_columns_params *p, float *to,
                                          const float *from, int64_t n, const int vectors) {
    const int64_t count = p->count, columns = p->columns;
    const vf beta = v_splat(p->beta);
    vf best[SOFTMAX_FLIGHT], sum[SOFTMAX_FLIGHT];
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
            element_store_f32(to + i, v, n);
            sum[u] += v;
        }
    CIRCLET_UNROLL for (int u = 0; u < vectors; u++) sum[u] = v_splat(1.0f) / sum[u];
    for (int64_t k = 0; k < count; k++)
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
            float *y = to + k * columns + u * CIRCLET_LANES;
            element_store_f32(y, element_load_f32(y, n, ELEMENT_F32) * sum[u], n);
        }
}

/* Operands: source, result. */
CIRCLET_INLINE void softmax_columns(const struct softmax_columns_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end) {
    const int64_t width = SOFTMAX_FLIGHT * CIRCLET_LANES;
    const int64_t last = s_min_i64(end * p->blocks_per_task, p->blocks);
    (void)scratch;
    for (int64_t block = begin * p->blocks_per_task; block < last; block++) {
        int64_t first = block % p->plane_blocks * width;
        int64_t start = block / p->plane_blocks * p->count * p->columns + first;
        const float *from = (const float *)x[0] + start;
        float *to = (float *)x[1] + start;
        int64_t left = p->columns - first;
        if (left >= width) {
            softmax_columns_block(p, to, from, CIRCLET_LANES, SOFTMAX_FLIGHT);
            continue;
        }
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < left; i += CIRCLET_LANES)
            softmax_columns_block(p, to + i, from + i, s_min_i64(left - i, CIRCLET_LANES), 1);
    }
}

#endif
