/* Reductions of 64-bit elements over axes, integers modulo 2^64 or doubles, and the mean of int32. */
#ifndef CIRCLET_REDUCE_WIDE_H
#define CIRCLET_REDUCE_WIDE_H

#include "reduction.h"
#include "wide.h"

struct reduce_wide_params {
    struct reduce_params all;
    int64_t count; /* of elements behind each result */
};

/* Elements as 64 bits, those of doubles as they are. */
CIRCLET_INLINE int64_t reduce_wide_bits(double x) {
    union { double f; int64_t i; } u = {x};
    return u.i;
}
CIRCLET_INLINE double reduce_wide_double(int64_t x) {
    union { int64_t i; double f; } u = {x};
    return u.f;
}

CIRCLET_INLINE int64_t reduce_wide_start(const int type, const int kind) {
    const double infinity = __builtin_inf();
    if (type == ELEMENT_F64)
        return reduce_wide_bits(kind == REDUCE_MAX    ? -infinity
                                : kind == REDUCE_MIN  ? infinity
                                : kind == REDUCE_PROD ? 1.0
                                                      : 0.0);
    return kind == REDUCE_MAX ? INT64_MIN : kind == REDUCE_MIN ? INT64_MAX : kind == REDUCE_PROD;
}

CIRCLET_INLINE int64_t reduce_wide_join(int64_t a, int64_t b, const int type, const int kind) {
    if (type == ELEMENT_F64) {
        double x = reduce_wide_double(a), y = reduce_wide_double(b), z = x + y;
        if (kind == REDUCE_MAX) z = x > y || x != x ? x : y;
        if (kind == REDUCE_MIN) z = x < y || x != x ? x : y;
        if (kind == REDUCE_PROD) z = x * y;
        return reduce_wide_bits(z);
    }
    if (kind == REDUCE_MAX) return a > b ? a : b;
    if (kind == REDUCE_MIN) return a < b ? a : b;
    if (kind == REDUCE_PROD) return (int64_t)((uint64_t)a * (uint64_t)b);
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

CIRCLET_INLINE wl reduce_wide_join_all(wl a, wl b, const int type, const int kind) {
    if (type == ELEMENT_F64) {
        wd x = (wd)a, y = (wd)b, z = x + y;
        if (kind == REDUCE_MAX) z = v_max_f64(x, y);
        if (kind == REDUCE_MIN) z = v_min_f64(x, y);
        if (kind == REDUCE_PROD) z = x * y;
        return (wl)z;
    }
    if (kind == REDUCE_MAX) return v_max_i64(a, b);
    if (kind == REDUCE_MIN) return v_min_i64(a, b);
    wl_unsigned x = (wl_unsigned)a, y = (wl_unsigned)b;
    return (wl)(kind == REDUCE_PROD ? x * y : x + y);
}

CIRCLET_INLINE int64_t reduce_wide_load(const char *at, const int type) {
    return type == ELEMENT_I32 ? *(const int32_t *)at : *(const int64_t *)at;
}
CIRCLET_INLINE wl reduce_wide_load_all(const char *at, int64_t n, const int type) {
    return type == ELEMENT_I32 ? v_to_i64(element_load_i32(at, n, type)) : element_load_i64(at, n);
}

CIRCLET_INLINE void reduce_wide_store(const struct reduce_wide_params *p, char *to, int64_t x,
                                      const int type, const int kind) {
    if (kind == REDUCE_MEAN && type == ELEMENT_F64)
        x = reduce_wide_bits(reduce_wide_double(x) / (double)p->count);
    else if (kind == REDUCE_MEAN)
        x /= p->count;
    if (type == ELEMENT_I32) *(int32_t *)to = (int32_t)x;
    else *(int64_t *)to = x;
}

/* One result of elements that are no neighbours of those of the next: whole vectors of a run whose
 * elements are side by side, and then one by one. */
CIRCLET_INLINE int64_t reduce_wide_along(const struct reduce_params *p, const char *from,
                                         const int type, const int kind) {
    const int64_t size = type == ELEMENT_I32 ? 4 : 8, count = p->reduced[3];
    const int64_t whole = p->steps[3] == size ? count - count % CIRCLET_LANES : 0;
    const int64_t start = reduce_wide_start(type, kind);
    union { wl v; int64_t e[CIRCLET_LANES]; } sums = {v_splat_i64(start)};
    int64_t sum = start;
    for (int64_t run = 0; run < reduce_runs(p); run++) {
        const char *at = from + reduce_offset(p, run);
        for (int64_t n = 0; n < whole; n += CIRCLET_LANES) {
            wl x = reduce_wide_load_all(at + n * size, CIRCLET_LANES, type);
            sums.v = reduce_wide_join_all(sums.v, x, type, kind);
        }
        for (int64_t n = whole; n < count; n++)
            sum = reduce_wide_join(sum, reduce_wide_load(at + n * p->steps[3], type), type, kind);
    }
    CIRCLET_NO_UNROLL for (int i = 0; whole && i < CIRCLET_LANES; i++)
        sum = reduce_wide_join(sum, sums.e[i], type, kind);
    return sum;
}

/* Up to a vector of results, whose elements are neighbours. */
CIRCLET_INLINE wl reduce_wide_across(const struct reduce_params *p, const char *from, int64_t n,
                                     const int type, const int kind) {
    wl sums = v_splat_i64(reduce_wide_start(type, kind));
    for (int64_t run = 0; run < reduce_runs(p); run++) {
        const char *at = from + reduce_offset(p, run);
        for (int64_t i = 0; i < p->reduced[3]; i++)
            sums = reduce_wide_join_all(
                sums, reduce_wide_load_all(at + i * p->steps[3], n, type), type, kind);
    }
    return sums;
}

/* Operands: source, results. A task is a row of kept elements. */
CIRCLET_INLINE void reduce_wide(const struct reduce_wide_params *params, void *const *x,
                                void *scratch, int64_t begin, int64_t end, const int type,
                                const int kind) {
    const struct reduce_params *p = &params->all;
    const int64_t size = type == ELEMENT_I32 ? 4 : 8;
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->source);
        char *to = (char *)x[1] + row * p->inner * size;
        if (p->inner == 1) {
            reduce_wide_store(params, to, reduce_wide_along(p, from, type, kind), type, kind);
            continue;
        }
        for (int64_t i = 0; i < p->inner; i += CIRCLET_LANES) {
            int64_t n = s_min_i64(CIRCLET_LANES, p->inner - i);
            union { wl v; int64_t e[CIRCLET_LANES]; } sums;
            sums.v = reduce_wide_across(p, from + i * size, n, type, kind);
            CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k++)
                reduce_wide_store(params, to + (i + k) * size, sums.e[k], type, kind);
        }
    }
}

#endif
