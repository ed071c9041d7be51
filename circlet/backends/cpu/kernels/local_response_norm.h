/* Rows of channels divided by a power of what their neighbours' squares come to. */
#ifndef CIRCLET_LOCAL_RESPONSE_NORM_H
#define CIRCLET_LOCAL_RESPONSE_NORM_H

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
    vf power = x;
    if (quarters == 2) power = v_sqrt(x);
    if (quarters == 3) power = v_sqrt(x) * v_sqrt(v_sqrt(x));
    return v_splat(1.0f) / power;
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

#endif
