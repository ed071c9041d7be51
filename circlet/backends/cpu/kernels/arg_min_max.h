/* Arg-max and arg-min along an axis: of equal elements the first, as in LiteRT's ArgMinMax. */
#ifndef CIRCLET_ARG_MIN_MAX_H
#define CIRCLET_ARG_MIN_MAX_H

#include "arg_max_u8.h"
#include "element.h"
#include "rows.h"
#include "simd_int.h"

struct arg_min_max_params {
    int64_t rows;          /* outer elements */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements along the axis */
    int64_t inner;         /* elements behind it */
};

/* Integers in the order of the elements, complemented for the smallest, so that one comparison
 * serves all types. Floats order as their bits do, once the lower bits of negative ones are
 * flipped; adding +0 makes zeros of both signs one. */
CIRCLET_INLINE vi arg_keys(const void *at, int64_t n, int type, int smallest) {
    vi key;
    if (type == ELEMENT_F32) {
        key = (vi)(element_load_f32(at, n, type) + v_zero());
        key ^= (key >> 31) & 0x7fffffff;
    } else {
        key = element_load_i32(at, n, type);
    }
    if (smallest) key = ~key;
    return key;
}

CIRCLET_INLINE void arg_store(void *to, int64_t i, int32_t position, int result_bytes) {
    if (result_bytes == 8) ((int64_t *)to)[i] = position;
    else ((int32_t *)to)[i] = position;
}

/* The axis is the last: each lane holds its own first best, the first of the best lanes wins. */
CIRCLET_INLINE int32_t arg_along(const char *from, int64_t count, int type, int smallest) {
    vi best = v_splat_i32(INT32_MIN), position = v_zero_i32(), here = v_iota();
    for (int64_t i = 0; i < count; i += CIRCLET_LANES, here += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, count - i);
        vi key = arg_keys(from + i * element_size(type), n, type, smallest);
        if (n < CIRCLET_LANES) key = v_select_i32(v_lane_mask(n), key, v_splat_i32(INT32_MIN));
        vi better = key > best;
        best = v_select_i32(better, key, best), position = v_select_i32(better, here, position);
    }
    vi top = v_splat_i32(v_fold_max_i32(best));
    return v_fold_min_i32(v_select_i32(best == top, position, v_splat_i32(INT32_MAX)));
}

/* One vector of elements behind the axis. */
CIRCLET_INLINE void arg_across(const struct arg_min_max_params *p, const char *from, void *to,
                               int64_t first, int64_t n, int type, int result_bytes,
                               int smallest) {
    vi best = arg_keys(from, n, type, smallest), position = v_zero_i32();
    for (int64_t i = 1; i < p->count; i++) {
        vi key = arg_keys(from + i * p->inner * element_size(type), n, type, smallest);
        vi better = key > best;
        best = v_select_i32(better, key, best);
        position = v_select_i32(better, v_splat_i32((int32_t)i), position);
    }
    union { vi v; int32_t e[CIRCLET_LANES]; } u = {position};
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < n; i++)
        arg_store(to, first + i, u.e[i], result_bytes);
}

/* One element of 64 bits behind the axis, ordered as arg_keys says. */
CIRCLET_INLINE int32_t arg_of_wide(const struct arg_min_max_params *p, const char *from, int type,
                                   int smallest) {
    int64_t best = INT64_MIN, position = 0;
    for (int64_t i = 0; i < p->count; i++, from += p->inner * 8) {
        int64_t key = *(const int64_t *)from;
        if (type == ELEMENT_F64) {
            union { double f; int64_t i; } u = {*(const double *)from + 0.0};
            key = u.i ^ (u.i >> 63 & INT64_MAX);
        }
        if (smallest) key = ~key;
        if (key > best) best = key, position = i;
    }
    return (int32_t)position;
}

/* Operands: source, result of int32 or int64 positions. */
CIRCLET_INLINE void arg_min_max(const struct arg_min_max_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, int type, int result_bytes,
                                int smallest) {
    (void)scratch;
    int64_t size = element_size(type), last = s_min_i64(end * p->rows_per_task, p->rows);
    if (p->inner == 1 && size == 1) {
        const uint8_t change = (type == ELEMENT_I8 ? 0x80 : 0) ^ (smallest ? 0xff : 0), *bytes = x[0];
        const int64_t count = p->count;
        void *to = x[1];
        for (int64_t row = begin * p->rows_per_task; row < last; row++)
            arg_store(to, row, arg_max_u8(bytes + row * count, count, change), result_bytes);
        return;
    }
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        const char *from = (const char *)x[0] + row * p->count * p->inner * size;
        if (size == 8) {
            for (int64_t i = 0; i < p->inner; i++)
                arg_store(x[1], row * p->inner + i, arg_of_wide(p, from + i * 8, type, smallest),
                          result_bytes);
            continue;
        }
        if (p->inner == 1) {
            arg_store(x[1], row, arg_along(from, p->count, type, smallest), result_bytes);
            continue;
        }
        for (int64_t i = 0; i < p->inner; i += CIRCLET_LANES)
            arg_across(p, from + i * size, x[1], row * p->inner + i,
                       s_min_i64(CIRCLET_LANES, p->inner - i), type, result_bytes, smallest);
    }
}

#endif
