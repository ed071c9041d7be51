/* Sums of products of integers in 64-bit accumulators, and their way to the output's steps.
 *
 * Weights stand as int16 in panels of NV * CIRCLET_LANES columns per element of a sum; what
 * belongs to a column, as SUM_INT_QPARAM rows of 8 bytes: bias, multiplier, left and right shift.
 */
#ifndef CIRCLET_SUM_INT_H
#define CIRCLET_SUM_INT_H

#include "element.h"
#include "fixed.h"
#include "wide.h"

#define SUM_INT_QPARAM 4

/* Products of int16 with 8-bit numbers that fit one 32-bit sum, less their zero points, too. */
#define SUM_INT_FLUSH 256

CIRCLET_INLINE int32_t sum_int_element(const char *at, int type) {
    if (type == ELEMENT_I16) return *(const int16_t *)at;
    return type == ELEMENT_I8 ? *(const int8_t *)at : *(const uint8_t *)at;
}

/* acc += x[i] * panel[i] for `count` elements; weights in the panel have 8 bits. */
CIRCLET_INLINE void sum_int_run(wl *acc, const int16_t *x, int64_t count, const int16_t *panel,
                                const int NV) {
    for (int64_t i = 0; i < count;) {
        int64_t stop = s_min_i64(i + SUM_INT_FLUSH, count);
        vi part[4];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) part[v] = v_zero_i32();
        for (; i < stop; i++)
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                part[v] += x[i] * v_widen_i16(panel + (i * NV + v) * CIRCLET_LANES);
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[v] += v_to_i64(part[v]);
    }
}

struct sum_int_bounds {
    int32_t zero, low, high;
};

#define SUM_INT_FAR 65536.0 /* beyond all results of 16 bits */

CIRCLET_INLINE wd sum_int_select(wl mask, wd a, wd b) {
    return (wd)(((wl)a & mask) | ((wl)b & ~mask));
}

/* Sums times real factors, to the nearest whole number, halves away from zero. */
CIRCLET_INLINE vi sum_int_real(wl acc, const int64_t *factors) {
    wd y = __builtin_convertvector(acc, wd) * (wd) * (const wl_u *)factors;
    wd far = (wd){0} + SUM_INT_FAR;
    y = sum_int_select((wl)(y > far), far, y);
    y = sum_int_select((wl)(y < -far), -far, y);
    wd half = sum_int_select((wl)(y < 0.0), (wd){0} - 0.5, (wd){0} + 0.5);
    return v_low_i32(__builtin_convertvector(y + half, wl));
}

#define SUM_INT_TWICE 0 /* rounded twice, from 32 bits */
#define SUM_INT_ONCE 1  /* rounded once, from 64 bits */
#define SUM_INT_REAL 2  /* the multiplier is a double */

/* One vector of results. */
CIRCLET_INLINE void sum_int_store(char *to, wl acc, const int64_t *qparam, int64_t row,
                                  struct sum_int_bounds bounds, int64_t count, int type,
                                  const int form) {
    wl multiplier = *(const wl_u *)(qparam + row), right = *(const wl_u *)(qparam + 3 * row);
    acc += *(const wl_u *)qparam;
    vi y;
    if (form == SUM_INT_REAL) {
        y = sum_int_real(acc, qparam + row);
    } else if (form == SUM_INT_ONCE) {
        wl one = v_splat_i64(1);
        y = v_low_i32((acc * multiplier + (one << (right - one))) >> right);
    } else {
        vi left = v_low_i32(*(const wl_u *)(qparam + 2 * row));
        y = v_scale_twice(v_low_i32(acc), v_low_i32(multiplier), left, v_low_i32(right));
    }
    y += v_splat_i32(bounds.zero);
    y = v_clamp_i32(y, v_splat_i32(bounds.low), v_splat_i32(bounds.high));
    element_store_i32(to, y, count, type);
}

CIRCLET_INLINE void sum_int_store_all(char *to, const wl *acc, const int64_t *qparam,
                                      struct sum_int_bounds bounds, int64_t left, int type,
                                      const int NV, const int form) {
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
        int at = v * CIRCLET_LANES;
        if (left > at)
            sum_int_store(to + at * element_size(type), acc[v], qparam + at, NV * CIRCLET_LANES,
                          bounds, s_min_i64(left - at, CIRCLET_LANES), type, form);
    }
}

#endif
