/* Softmax and log-softmax of dense rows of floats.
 *
 * e^(beta (x - highest)) never overflows, and one term is 1, so that the sum is no less. Rows of a
 * few vectors stay in registers, several rows of 2, 4 or 8 elements in one; longer ones are read
 * three times, for the highest element, for the terms, and to divide by their sum. The last vector
 * of a row overlaps the one before it: stores of a part of a vector take long, and what is stored
 * so does not reach a load behind it in time.
 */
#ifndef CIRCLET_SOFTMAX_F32_H
#define CIRCLET_SOFTMAX_F32_H

#include "vmath.h"

struct softmax_f32_params {
    int64_t rows;          /* in all */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements of a row */
    float beta;            /* factor of the exponent */
};

#define SOFTMAX_FLIGHT 4 /* vectors whose latencies overlap */
#define SOFTMAX_HELD 4   /* vectors of a row that registers hold from its first pass to its last */

CIRCLET_INLINE float softmax_fold_max(const vf *best) {
    return v_fold_max(v_max(v_max(best[0], best[1]), v_max(best[2], best[3])));
}

/* The highest element of at least one vector; the last vector overlaps the one before. */
CIRCLET_INLINE float softmax_highest_long(const float *x, int64_t count) {
    const int64_t step = SOFTMAX_FLIGHT * CIRCLET_LANES;
    vf best[SOFTMAX_FLIGHT];
    int64_t i = 0;
    CIRCLET_UNROLL for (int u = 0; u < SOFTMAX_FLIGHT; u++) best[u] = v_splat(-__builtin_inff());
    for (; i + step <= count; i += step)
        CIRCLET_UNROLL for (int u = 0; u < SOFTMAX_FLIGHT; u++)
            best[u] = v_max(v_load(x + i + u * CIRCLET_LANES), best[u]);
    CIRCLET_NO_UNROLL for (; i < count; i += CIRCLET_LANES)
        best[0] = v_max(v_load(x + s_min_i64(i, count - CIRCLET_LANES)), best[0]);
    return softmax_fold_max(best);
}

CIRCLET_INLINE float softmax_highest(const float *x, int64_t count) {
    if (CIRCLET_LIKELY(count >= CIRCLET_LANES)) return softmax_highest_long(x, count);
    return v_fold_max(v_select(v_lane_mask(count), v_load_n(x, count), v_splat(-__builtin_inff())));
}

CIRCLET_INLINE vf softmax_term(vf x, vf highest, vf beta) {
    return v_exp_falling((x - highest) * beta);
}

/* Elements of a row's last vector that none before it has: at least one. */
CIRCLET_INLINE int64_t softmax_rest(int64_t count) { return (count - 1) % CIRCLET_LANES + 1; }

/* The last vector of a row: behind others it overlaps the one before, so that nothing masks it. */
CIRCLET_INLINE vf softmax_load_last(const float *row, int64_t count) {
    if (count < CIRCLET_LANES) return v_load_n(row, count);
    return v_load(row + count - CIRCLET_LANES);
}

CIRCLET_INLINE void softmax_store_last(float *row, vf x, int64_t count) {
    if (count < CIRCLET_LANES) v_store_n(row, x, count);
    else v_store(row + count - CIRCLET_LANES, x);
}

/* Its terms, zero in the lanes that the vector before has, or none. */
CIRCLET_INLINE vf softmax_last_sum(vf terms, int64_t count) {
    if (count < CIRCLET_LANES) return v_select(v_lane_mask(count), terms, v_zero());
    return v_select(v_lane_mask(CIRCLET_LANES - softmax_rest(count)), v_zero(), terms);
}

/* Sum of e^(beta * (x - highest)) over whole vectors and of the lanes of `sum`; the terms of the
 * former are stored in `to` unless it is null. */
CIRCLET_INLINE float softmax_whole_terms(float *to, const float *x, int64_t count, vf highest,
                                         vf beta, vf sum) {
    const int64_t step = SOFTMAX_FLIGHT * CIRCLET_LANES;
    vf sums[SOFTMAX_FLIGHT] = {sum};
    int64_t i = 0;
    for (; i + step <= count; i += step)
        CIRCLET_UNROLL for (int u = 0; u < SOFTMAX_FLIGHT; u++) {
            vf v = softmax_term(v_load(x + i + u * CIRCLET_LANES), highest, beta);
            if (to) v_store(to + i + u * CIRCLET_LANES, v);
            sums[u] += v;
        }
    CIRCLET_NO_UNROLL for (; i < count; i += CIRCLET_LANES) {
        vf v = softmax_term(v_load(x + i), highest, beta);
        if (to) v_store(to + i, v);
        sums[0] += v;
    }
    return v_fold_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Sum of e^(beta * (x - highest)); the terms are stored in `to` unless it is null. */
CIRCLET_INLINE float softmax_terms(float *to, const float *x, int64_t count, vf highest,
                                   vf beta) {
    vf last = softmax_term(softmax_load_last(x, count), highest, beta);
    float sum = softmax_whole_terms(to, x, count - softmax_rest(count), highest, beta,
                                    softmax_last_sum(last, count));
    if (to) softmax_store_last(to, last, count);
    return sum;
}

CIRCLET_INLINE void softmax_scale(float *to, int64_t count, vf scale) {
    for (int64_t i = 0; i + CIRCLET_LANES <= count; i += CIRCLET_LANES)
        v_store(to + i, v_load(to + i) * scale);
}

/* A row of more than one vector. The terms of a last one that overlaps stay in a register. */
CIRCLET_INLINE void softmax_row(float *to, const float *from, int64_t count, vf beta) {
    const int64_t whole = count / CIRCLET_LANES * CIRCLET_LANES;
    vf highest = v_splat(softmax_highest_long(from, count));
    if (whole == count) {
        float sum = softmax_whole_terms(to, from, count, highest, beta, v_zero());
        softmax_scale(to, count, v_splat(1.0f / sum));
        return;
    }
    vf last = softmax_term(softmax_load_last(from, count), highest, beta);
    vf sum = softmax_last_sum(last, count);
    vf scale = v_splat(1.0f / softmax_whole_terms(to, from, whole, highest, beta, sum));
    softmax_scale(to, whole, scale);
    softmax_store_last(to, last * scale, count);
}

/* A row of `vectors` vectors: it is read and written once. */
CIRCLET_INLINE void softmax_held_row(float *to, const float *from, int64_t count, vf beta,
                                     const int vectors) {
    const int last = vectors - 1;
    vf v[SOFTMAX_HELD], best, sum;
    CIRCLET_UNROLL for (int k = 0; k < last; k++) v[k] = v_load(from + k * CIRCLET_LANES);
    best = v[last] = softmax_load_last(from, count);
    if (count < CIRCLET_LANES)
        best = v_select(v_lane_mask(count), best, v_splat(-__builtin_inff()));
    CIRCLET_UNROLL for (int k = 0; k < last; k++) best = v_max(v[k], best);
    best = v_splat(v_fold_max(best));
    CIRCLET_UNROLL for (int k = 0; k < vectors; k++) v[k] = softmax_term(v[k], best, beta);
    sum = softmax_last_sum(v[last], count);
    CIRCLET_UNROLL for (int k = 0; k < last; k++) sum += v[k];
    vf scale = v_splat(1.0f / v_fold_add(sum));
    CIRCLET_UNROLL for (int k = 0; k < last; k++)
        v_store(to + k * CIRCLET_LANES, v[k] * scale);
    softmax_store_last(to, v[last] * scale, count);
}

/* Where all vectors are full, that is a literal, so that nothing masks the last: a mask of ones
 * that is made in the registers of the row before makes rows wait for each other. */
CIRCLET_INLINE void softmax_held_rows(const struct softmax_f32_params *p, float *to,
                                      const float *from, int64_t rows, vf beta,
                                      const int vectors) {
    const int64_t count = p->count, full = vectors * CIRCLET_LANES;
    if (count == full) {
        for (int64_t row = 0; row < rows; row++)
            softmax_held_row(to + row * full, from + row * full, full, beta, vectors);
        return;
    }
    for (int64_t row = 0; row < rows; row++)
        softmax_held_row(to + row * count, from + row * count, count, beta, vectors);
}

/* Whole rows of 2, 4 or 8 elements in one vector, whose lanes exchange their highest and sums. */
CIRCLET_INLINE vf softmax_short(vf x, vf beta, const int count) {
    vf best = v_max(CIRCLET_SWAP(x, 1), x);
    if (count > 2) best = v_max(CIRCLET_SWAP(best, 2), best);
    if (count > 4) best = v_max(CIRCLET_SWAP(best, 4), best);
    vf terms = softmax_term(x, best, beta), sum = terms + CIRCLET_SWAP(terms, 1);
    if (count > 2) sum += CIRCLET_SWAP(sum, 2);
    if (count > 4) sum += CIRCLET_SWAP(sum, 4);
    return terms / sum;
}

CIRCLET_INLINE void softmax_short_rows(float *to, const float *from, int64_t elements, vf beta,
                                       const int count) {
    int64_t i = 0;
    for (; i + CIRCLET_LANES <= elements; i += CIRCLET_LANES)
        v_store(to + i, softmax_short(v_load(from + i), beta, count));
    if (i == elements) return;
    vf rest = softmax_short(v_load_n(from + i, elements - i), beta, count);
    v_store_n(to + i, rest, elements - i);
}

/* Operands: source, result. */
CIRCLET_INLINE void softmax_f32(const struct softmax_f32_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end) {
    const int64_t row = begin * p->rows_per_task, count = p->count;
    const int64_t rows = s_min_i64(end * p->rows_per_task, p->rows) - row;
    const float *from = (const float *)x[0] + row * count;
    float *to = (float *)x[1] + row * count;
    const vf beta = v_splat(p->beta);
    (void)scratch;
    if (count == 2) { softmax_short_rows(to, from, rows * 2, beta, 2); return; }
    if (count == 4) { softmax_short_rows(to, from, rows * 4, beta, 4); return; }
#if CIRCLET_LANES >= 8
    if (count == 8) { softmax_short_rows(to, from, rows * 8, beta, 8); return; }
#endif
    switch ((count + CIRCLET_LANES - 1) / CIRCLET_LANES) {
    case 1: softmax_held_rows(p, to, from, rows, beta, 1); return;
    case 2: softmax_held_rows(p, to, from, rows, beta, 2); return;
    case 3: softmax_held_rows(p, to, from, rows, beta, 3); return;
    case 4: softmax_held_rows(p, to, from, rows, beta, 4); return;
    }
    for (int64_t i = 0; i < rows; i++) softmax_row(to + i * count, from + i * count, count, beta);
}

struct log_softmax_f32_params {
    int64_t rows;          /* in all */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements of a row */
};

/* Operands: source, result. */
CIRCLET_INLINE void log_softmax_f32(const struct log_softmax_f32_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t end_row = s_min_i64(end * p->rows_per_task, p->rows), count = p->count;
    const int64_t whole = count - softmax_rest(count);
    for (int64_t row = begin * p->rows_per_task; row < end_row; row++) {
        const float *from = (const float *)x[0] + row * count;
        float *to = (float *)x[1] + row * count;
        vf highest = v_splat(softmax_highest(from, count)), last = softmax_load_last(from, count);
        vf rest = v_log(v_splat(softmax_terms(0, from, count, highest, v_splat(1.0f))));
        for (int64_t i = 0; i + CIRCLET_LANES <= whole; i += CIRCLET_LANES)
            v_store(to + i, v_load(from + i) - highest - rest);
        softmax_store_last(to, last - highest - rest, count);
    }
}

#endif
