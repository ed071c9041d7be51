/* Rows of channels divided by a power of what their neighbours' squares come to. */
#ifndef CIRCLET_LOCAL_RESPONSE_NORM_H
#define CIRCLET_LOCAL_RESPONSE_NORM_H

#include "columns.h"
#include "vmath.h"

struct local_response_norm_params {
    int64_t rows;
    int64_t rows_per_task;
    int64_t count;  /* elements of a row */
    int64_t radius; /* neighbours on each side, below `count` */
    float bias;
    float alpha;
    float beta;
};

/* x^-(quarters / 4), by roots alone, or x^-beta where `quarters` is 0. */
CIRCLET_INLINE vf local_response_power(vf x, float beta, const int quarters) {
    if (quarters == 0) return v_exp(v_log(x) * v_splat(-beta));
    if (quarters == 4) return v_splat(1.0f) / x;
    vf power = v_rsqrt(x);
    if (quarters == 3) power *= v_sqrt(power);
    return power;
}

/* `squares` has `radius` zeros on both sides, and a vector more behind. */
CIRCLET_INLINE void local_response_row(const struct local_response_norm_params *p, const float *x,
                                       float *y, float *squares, const int quarters) {
    float *own = squares + p->radius;
    for (int64_t i = 0; i < p->count; i++) own[i] = x[i] * x[i];
    for (int64_t i = 0; i < p->count; i += CIRCLET_LANES) {
        int64_t left = p->count - i;
        vf sum = v_zero();
        for (int64_t k = 0; k <= 2 * p->radius; k++) sum += v_load(squares + i + k);
        vf scale = v_fma(sum, v_splat(p->alpha), v_splat(p->bias));
        vf factor = local_response_power(scale, p->beta, quarters);
        if (left < CIRCLET_LANES) v_store_n(y + i, v_load_n(x + i, left) * factor, left);
        else v_store(y + i, v_load(x + i) * factor);
    }
}

/* Operands: source, result. */
CIRCLET_INLINE void local_response_norm(const struct local_response_norm_params *p,
                                        void *const *operands, void *scratch, int64_t begin,
                                        int64_t end, const int quarters) {
    float *squares = (float *)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    int64_t padded = p->count + 2 * p->radius + CIRCLET_LANES;
    for (int64_t i = 0; i < padded; i++) squares[i] = 0.0f;
    for (int64_t row = begin * p->rows_per_task; row < last; row++)
        local_response_row(p, (const float *)operands[0] + row * p->count,
                           (float *)operands[1] + row * p->count, squares, quarters);
}

struct local_response_columns_params {
    struct columns in;
    int64_t radius; /* neighbours on each side */
    float bias;
    float alpha;
    float beta;
};

CIRCLET_INLINE void local_response_block(const void *params, float *to, const float *from,
                                         int64_t n, const int vectors, const int quarters) {
    const struct local_response_columns_params *p = params;
    const int64_t count = p->in.count, columns = p->in.columns;
    for (int64_t k = 0; k < count; k++) {
        const int64_t first = s_max_i64(k - p->radius, 0), end = s_min_i64(k + p->radius + 1, count);
        vf sum[COLUMN_VECTORS];
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) sum[u] = v_zero();
        for (int64_t i = first; i < end; i++)
            CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
                const float *x = from + i * columns + u * CIRCLET_LANES;
                vf v = element_load_f32(x, n, ELEMENT_F32);
                sum[u] = v_fma(v, v, sum[u]);
            }
        CIRCLET_UNROLL for (int u = 0; u < vectors; u++) {
            const int64_t i = k * columns + u * CIRCLET_LANES;
            vf scale = v_fma(sum[u], v_splat(p->alpha), v_splat(p->bias));
            vf factor = local_response_power(scale, p->beta, quarters);
            element_store_f32(to + i, element_load_f32(from + i, n, ELEMENT_F32) * factor, n);
        }
    }
}

/* Operands: source, result. */
CIRCLET_INLINE void local_response_columns(const struct local_response_columns_params *p,
                                           void *const *x, void *scratch, int64_t begin,
                                           int64_t end, const int quarters) {
    (void)scratch;
    for_columns(&p->in, p, x, begin, end, local_response_block, quarters);
}

#endif
