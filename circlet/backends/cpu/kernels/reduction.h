/* What reductions have in common: kinds, parameters, neutral elements, joins and stores. */
#ifndef CIRCLET_REDUCTION_H
#define CIRCLET_REDUCTION_H

#include "fixed.h"
#include "element.h"
#include "rows.h"
#include "simd_int.h"

enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD };

#define REDUCE_BLOCK 64 /* elements of a partial sum; 64 of 8 bits fit 16 bits */

struct reduce_params {
    int64_t rows;          /* of kept outer elements */
    int64_t rows_per_task; /* where the inner axis is reduced */
    int64_t inner;         /* kept elements that are contiguous in the source */
    int64_t sizes[6];      /* kept outer sizes */
    int64_t source[7];     /* strides of the kept axes, bytes */
    int64_t reduced[4];    /* sizes of the reduced axes */
    int64_t steps[4];      /* their strides, bytes */
    float elements;        /* number of elements behind each result */
    int32_t centre;        /* zero point of the source times the elements */
    int32_t multiplier;    /* to the result's scale */
    int32_t shift;         /* before the multiplication, or after it where it is below 0 */
    int32_t zero;          /* zero point of the result */
    int32_t low;           /* of the result's type */
    int32_t high;          /* of the result's type */
};

/* Runs of the last reduced axis, and where run `index` starts. */
CIRCLET_INLINE int64_t reduce_runs(const struct reduce_params *p) {
    return p->reduced[0] * p->reduced[1] * p->reduced[2];
}
CIRCLET_INLINE int64_t reduce_offset(const struct reduce_params *p, int64_t index) {
    int64_t c = index % p->reduced[2], b = index / p->reduced[2] % p->reduced[1];
    int64_t a = index / p->reduced[2] / p->reduced[1];
    return a * p->steps[0] + b * p->steps[1] + c * p->steps[2];
}

CIRCLET_FOLD(reduce_fold_mul, float, vf, a * b)
CIRCLET_FOLD(reduce_fold_mul_i32, int32_t, vi, (vi)((vu)a * (vu)b))

CIRCLET_INLINE vf reduce_start_f32(int kind) {
    float infinity = __builtin_inff();
    return v_splat(kind == REDUCE_MAX    ? -infinity
                   : kind == REDUCE_MIN  ? infinity
                   : kind == REDUCE_PROD ? 1.0f
                                         : 0.0f);
}
CIRCLET_INLINE vi reduce_start_i32(int kind) {
    return v_splat_i32(kind == REDUCE_MAX    ? INT32_MIN
                       : kind == REDUCE_MIN  ? INT32_MAX
                       : kind == REDUCE_PROD ? 1
                                             : 0);
}
CIRCLET_INLINE vf reduce_join_f32(vf a, vf b, int kind) {
    if (kind == REDUCE_MAX) return v_max(b, a);
    if (kind == REDUCE_MIN) return v_min(b, a);
    if (kind == REDUCE_PROD) return a * b;
    return a + b;
}
CIRCLET_INLINE vi reduce_join_i32(vi a, vi b, int kind) {
    if (kind == REDUCE_MAX) return v_max_i32(a, b);
    if (kind == REDUCE_MIN) return v_min_i32(a, b);
    if (kind == REDUCE_PROD) return a * b;
    return a + b;
}
CIRCLET_INLINE float reduce_fold_f32(vf v, int kind) {
    if (kind == REDUCE_MAX) return v_fold_max(v);
    if (kind == REDUCE_MIN) return v_fold_min(v);
    if (kind == REDUCE_PROD) return reduce_fold_mul(v);
    return v_fold_add(v);
}
CIRCLET_INLINE int32_t reduce_fold_i32(vi v, int kind) {
    if (kind == REDUCE_MAX) return v_fold_max_i32(v);
    if (kind == REDUCE_MIN) return v_fold_min_i32(v);
    if (kind == REDUCE_PROD) return reduce_fold_mul_i32(v);
    return v_fold_add_i32(v);
}

CIRCLET_INLINE void reduce_store_f32(const struct reduce_params *p, char *to, vf v, int64_t n,
                                     int kind) {
    if (kind == REDUCE_MEAN) v /= v_splat(p->elements);
    element_store_f32(to, v, n);
}

CIRCLET_INLINE void reduce_store_i32(const struct reduce_params *p, char *to, vi v, int64_t n,
                                     int type, int requantises) {
    if (requantises) {
        v = v_scale_all(v - v_splat_i32(p->centre), p->multiplier, p->shift);
        v = v_clamp_i32(v + v_splat_i32(p->zero), v_splat_i32(p->low), v_splat_i32(p->high));
    }
    element_store_i32(to, v, n, type);
}

#endif
