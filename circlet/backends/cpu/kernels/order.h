/* Running sums and the largest elements of a row. */
#ifndef CIRCLET_ORDER_H
#define CIRCLET_ORDER_H

#include "simd.h"

enum { ORDER_F32, ORDER_I8, ORDER_U8, ORDER_I16, ORDER_I32, ORDER_I64 };

struct running_sum_params {
    int64_t size;  /* of the axis that is summed along */
    int64_t inner; /* elements behind it */
};

/* Integers wrap. */
#define ORDER_SUM(type)                                                                   \
    for (int64_t step = 0; step < p->size; step++) {                                      \
        int64_t at = (is_reverse ? p->size - 1 - step : step) * p->inner;                 \
        int64_t before = at + (is_reverse ? p->inner : -p->inner);                        \
        const type *from = (const type *)x[0] + first + (is_exclusive ? before : at);     \
        type *to = (type *)x[1] + first + at;                                             \
        const type *sum = (const type *)x[1] + first + before;                            \
        for (int64_t i = 0; i < p->inner; i++)                                            \
            to[i] = !step ? (is_exclusive ? 0 : from[i]) : (type)(sum[i] + from[i]);      \
    }

/* `lines` neighbouring lines of contiguous elements side by side, as each sum waits for the last. */
#define ORDER_LINES(type, lines)                                                  \
    do {                                                                          \
        type sum[lines];                                                          \
        for (int64_t step = 0; step < p->size; step++) {                          \
            int64_t at = first + (is_reverse ? p->size - 1 - step : step);        \
            CIRCLET_UNROLL for (int l = 0; l < (lines); l++, at += p->size) {     \
                type value = ((const type *)x[0])[at];                            \
                type whole = step ? (type)(sum[l] + value) : value;               \
                ((type *)x[1])[at] = !is_exclusive ? whole : step ? sum[l] : 0;   \
                sum[l] = whole;                                                   \
            }                                                                     \
        }                                                                         \
    } while (0)

#define ORDER_SUMS(type)                                \
    do {                                                \
        if (p->inner != 1) { ORDER_SUM(type) }          \
        else if (lines == 1) ORDER_LINES(type, 1);      \
        else ORDER_LINES(type, 4);                      \
    } while (0)

/* Operands: source, result. A task is one position of the axes before the summed one. */
CIRCLET_INLINE void running_sum(const struct running_sum_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, int type, int is_exclusive,
                                int is_reverse) {
    (void)scratch;
    for (int64_t task = begin, lines; task < end; task += lines) {
        int64_t first = task * p->size * p->inner;
        lines = p->inner == 1 && task + 4 <= end ? 4 : 1;
        if (type == ORDER_F32) ORDER_SUMS(float);
        if (type == ORDER_I32) ORDER_SUMS(uint32_t);
        if (type == ORDER_I64) ORDER_SUMS(uint64_t);
    }
}

struct top_params {
    int64_t columns; /* elements of a row */
    int64_t kept;    /* of them, 1 or more */
};

/* A sorted list in the result takes each element that is larger than its smallest; among equals
 * the one that came first stays ahead. */
#define ORDER_TOP(type)                                                        \
    do {                                                                       \
        const type *from = (const type *)x[0] + row * p->columns;              \
        type *values = (type *)x[1] + row * p->kept;                           \
        int64_t held = 0;                                                      \
        for (int64_t c = 0; c < p->columns; c++) {                             \
            if (held == p->kept && !(from[c] > values[held - 1])) continue;    \
            int64_t at = held < p->kept ? held++ : held - 1;                   \
            for (; at > 0 && from[c] > values[at - 1]; at--) {                 \
                values[at] = values[at - 1];                                   \
                order_index(places, at, order_index_at(places, at - 1, index_size), index_size); \
            }                                                                  \
            values[at] = from[c];                                              \
            order_index(places, at, c, index_size);                            \
        }                                                                      \
    } while (0)

CIRCLET_INLINE int64_t order_index_at(const void *list, int64_t at, int size) {
    return size == 2 ? ((const int16_t *)list)[at] : ((const int32_t *)list)[at];
}

CIRCLET_INLINE void order_index(void *list, int64_t at, int64_t value, int size) {
    if (size == 2) ((int16_t *)list)[at] = (int16_t)value;
    else ((int32_t *)list)[at] = (int32_t)value;
}

/* Operands: source, values, indices. A task is one row. */
CIRCLET_INLINE void top(const struct top_params *p, void *const *x, void *scratch, int64_t begin,
                        int64_t end, int type, int index_size) {
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        char *places = (char *)x[2] + row * p->kept * index_size;
        if (type == ORDER_F32) ORDER_TOP(float);
        if (type == ORDER_I8) ORDER_TOP(int8_t);
        if (type == ORDER_U8) ORDER_TOP(uint8_t);
        if (type == ORDER_I16) ORDER_TOP(int16_t);
        if (type == ORDER_I32) ORDER_TOP(int32_t);
        if (type == ORDER_I64) ORDER_TOP(int64_t);
    }
}

#endif
