/* Cumulative sums along one axis. */
#ifndef CIRCLET_CUMSUM_H
#define CIRCLET_CUMSUM_H

#include "element.h"

struct cumsum_params {
    int64_t size;  /* of the axis that is summed along */
    int64_t inner; /* elements behind it */
};

#define CUMSUM_BLOCK 256 /* elements behind the axis whose sums are kept */

#define CUMSUM_STEP(type, whole_of)                                   \
    for (int64_t l = 0; l < count; l++) {                             \
        type value = from[l], before = sum[l], whole = (whole_of);    \
        to[l] = is_exclusive ? (step ? before : (type)0) : whole;     \
        sum[l] = whole;                                               \
    }

/* Integers wrap. The first element is taken as it is: 0 and -0 stay apart. */
#define CUMSUM_ACROSS(type)                                                               \
    for (int64_t i = 0; i < p->inner; i += CUMSUM_BLOCK) {                                \
        type sum[CUMSUM_BLOCK] = {0};                                                     \
        int64_t count = s_min_i64(CUMSUM_BLOCK, p->inner - i);                            \
        for (int64_t step = 0; step < p->size; step++) {                                  \
            int64_t at = first + (is_reverse ? p->size - 1 - step : step) * p->inner + i; \
            const type *from = (const type *)x[0] + at;                                   \
            type *to = (type *)x[1] + at;                                                 \
            if (step) CUMSUM_STEP(type, (type)(before + value))                           \
            else CUMSUM_STEP(type, value)                                                 \
        }                                                                                 \
    }

/* `lines` neighbouring lines of contiguous elements side by side: each sum waits for the one before
 * it, and other lines fill the latency. Sums run in order, as in LiteRT's CumSum. */
#define CUMSUM_LINES(type, lines)                                                  \
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

#define CUMSUM_ROWS(type)                                \
    do {                                                \
        if (p->inner != 1) { CUMSUM_ACROSS(type) }          \
        else if (lines == 1) CUMSUM_LINES(type, 1);      \
        else CUMSUM_LINES(type, 4);                      \
    } while (0)

/* Operands: source, result. A task is one position of the axes before the summed one. */
CIRCLET_INLINE void cumsum(const struct cumsum_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, int type, int is_exclusive,
                                int is_reverse) {
    (void)scratch;
    for (int64_t task = begin, lines; task < end; task += lines) {
        int64_t first = task * p->size * p->inner;
        lines = p->inner == 1 && task + 4 <= end ? 4 : 1;
        if (type == ELEMENT_F32) CUMSUM_ROWS(float);
        if (type == ELEMENT_I32) CUMSUM_ROWS(uint32_t);
        if (type == ELEMENT_I64) CUMSUM_ROWS(uint64_t);
    }
}

#endif
