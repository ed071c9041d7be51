/* Softmax of int16 rows: powers of differences from a table, one reciprocal a row, as
 * SoftmaxInt16 of LiteRT's reference/softmax.h has them, with its tables of 513 entries between
 * which it interpolates (the powers are interpolated at compile time). */
#ifndef CIRCLET_SOFTMAX16_H
#define CIRCLET_SOFTMAX16_H

#include "simd.h"

struct softmax_q16_params {
    int64_t rows;          /* in all */
    int64_t rows_per_task; /* of a task */
    int64_t count;         /* elements of a row */
    int64_t last;          /* largest difference that the table of powers has */
};

/* 1 / (1 + x) by linear interpolation; x has its zero at -32768, where the table starts. */
CIRCLET_INLINE int32_t softmax16_reciprocal(const int16_t *table, uint32_t sum, int headroom) {
    int64_t whole = (int64_t)(((uint64_t)sum << (headroom - 1)) + (1 << 13)) >> 14;
    int32_t x = (int32_t)s_min_i64(s_max_i64(whole - 3 * 32768, -32768), 32767);
    int32_t piece = (x >> 7) + 256, slope = (int16_t)(table[piece + 1] - table[piece]);
    return (int16_t)(table[piece] + ((slope * (x & 127) + 64) >> 7));
}

CIRCLET_INLINE int32_t softmax16_highest(const int16_t *from, int64_t count) {
    int32_t best = from[0];
    for (int64_t i = 1; i < count; i++) best = from[i] > best ? from[i] : best;
    return best;
}

CIRCLET_INLINE void softmax16_row(const struct softmax_q16_params *p, const int16_t *from,
                                  int16_t *to, const int16_t *powers, const int16_t *table) {
    int32_t highest = softmax16_highest(from, p->count);
    uint32_t sum = 0;
    for (int64_t i = 0; i < p->count; i++) {
        int16_t power = powers[s_min_i64(highest - from[i], p->last)];
        to[i] = power;
        sum += (uint32_t)power;
    }
    int headroom = __builtin_clz(sum), right = 31 - headroom;
    int32_t scale = softmax16_reciprocal(table, sum, headroom), half = 1 << (right - 1);
    for (int64_t i = 0; i < p->count; i++) {
        int32_t share = (to[i] * scale + half) >> right;
        to[i] = (int16_t)(share > 32767 ? 32767 : share);
    }
}

/* Operands: source, result, powers, reciprocals. */
CIRCLET_INLINE void softmax_q16(const struct softmax_q16_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end) {
    (void)scratch;
    int64_t stop = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < stop; row++)
        softmax16_row(p, (const int16_t *)x[0] + row * p->count, (int16_t *)x[1] + row * p->count,
                      x[2], x[3]);
}

#endif
