/* Rows of bytes divided by their length, as LiteRT's reference kernel does it: the reciprocal root
 * of the sum of squares by Newton's method, in fixed point of 3 integer bits. */
#ifndef CIRCLET_L2_NORM_Q8_H
#define CIRCLET_L2_NORM_Q8_H

#include "element.h"
#include "fixed.h"

struct l2_norm_q8_params {
    int64_t rows;
    int64_t rows_per_task;
    int64_t count; /* elements of a row */
    int32_t zero;
};

CIRCLET_INLINE int32_t l2_norm_shift(int32_t x, int bits) {
    int64_t y = (int64_t)x << bits;
    return y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : (int32_t)y;
}

/* 1 / sqrt(raw) for 0.25 <= raw < 1, all but exactly: five steps from 1. */
CIRCLET_INLINE int32_t l2_norm_newton(int32_t raw) {
    int32_t half = (raw + 1) >> 1, x = 1 << 28;
    for (int step = 0; step < 5; step++) {
        int32_t cube = l2_norm_shift(s_srdhm(s_srdhm(x, x), x), 6);
        int32_t less = (int32_t)((uint32_t)s_srdhm(402653184, x) - (uint32_t)s_srdhm(half, cube));
        x = l2_norm_shift(less, 3);
    }
    return x;
}

/* Mantissa and right shift of 1 / sqrt(x); all of x <= 1 counts as 1. */
CIRCLET_INLINE int32_t l2_norm_inverse_root(int32_t x, int32_t *right) {
    *right = 0;
    if (x <= 1) return INT32_MAX;
    int32_t shift = 11;
    for (; x >= 1 << 29; shift++) x /= 4;
    int pairs = (__builtin_clz((uint32_t)x) - 1) / 2 - 1;
    shift -= pairs;
    int32_t mantissa = s_srdhm(l2_norm_newton((x << 2 * pairs) >> 1), 1518500250);
    if (shift < 0) return (int32_t)((uint32_t)mantissa << -shift);
    *right = shift;
    return mantissa;
}

CIRCLET_INLINE void l2_norm_q8_row(const struct l2_norm_q8_params *p, const uint8_t *x, uint8_t *y,
                                   const int type) {
    vi zero = v_splat_i32(p->zero), squares = v_zero_i32();
    for (int64_t i = 0; i < p->count; i += CIRCLET_LANES) {
        int64_t left = s_min_i64(p->count - i, CIRCLET_LANES);
        vi centred = element_load_i32(x + i, left, type) - zero;
        centred = v_select_i32(v_iota() < v_splat_i32((int32_t)left), centred, v_zero_i32());
        squares = (vi)((vu)squares + (vu)(centred * centred));
    }
    uint32_t sum = 0;
    for (int lane = 0; lane < CIRCLET_LANES; lane++) sum += (uint32_t)squares[lane];
    int32_t down, mantissa = l2_norm_inverse_root((int32_t)sum, &down);
    const int is_u8 = type == ELEMENT_U8;
    vi multiplier = v_splat_i32(mantissa), base = v_splat_i32(is_u8 ? 128 : 0);
    vi left_bits = v_splat_i32(is_u8 || down < 7 ? 7 - (is_u8 ? 0 : down) : 0);
    vi right_bits = v_splat_i32(is_u8 ? down : down > 7 ? down - 7 : 0);
    vi low = v_splat_i32(is_u8 ? 0 : -128), high = v_splat_i32(is_u8 ? 255 : 127);
    for (int64_t i = 0; i < p->count; i += CIRCLET_LANES) {
        int64_t left = s_min_i64(p->count - i, CIRCLET_LANES);
        vi steps = v_scale_twice(element_load_i32(x + i, left, type) - zero, multiplier, left_bits,
                                 right_bits);
        element_store_i32(y + i, v_clamp_i32(steps + base, low, high), left, type);
    }
}

/* Operands: source, result. `type` is that of elements of both. */
CIRCLET_INLINE void l2_norm_q8(const struct l2_norm_q8_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int type) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++)
        l2_norm_q8_row(p, (const uint8_t *)operands[0] + row * p->count,
                       (uint8_t *)operands[1] + row * p->count, type);
}

#endif
