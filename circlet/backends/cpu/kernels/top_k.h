/* The largest elements of each row, in falling order, and their indices. */
#ifndef CIRCLET_TOP_K_H
#define CIRCLET_TOP_K_H

#include "bounded.h"
#include "element.h"
#include "stop.h"

struct top_k_params {
    int64_t columns; /* elements of a row */
    int64_t kept;    /* of them, 1 or more */
};

#define TOP_K_FEW 32  /* kept elements for which insertion is faster than a heap */
#define TOP_K_WORK 16 /* of an element that sinks, in comparisons */

CIRCLET_INLINE int64_t top_k_index(const void *list, int64_t at, int size) {
    return size == 2 ? ((const int16_t *)list)[at] : ((const int32_t *)list)[at];
}

CIRCLET_INLINE void top_k_set_index(void *list, int64_t at, int64_t value, int size) {
    if (size == 2) ((int16_t *)list)[at] = (int16_t)value;
    else ((int32_t *)list)[at] = (int32_t)value;
}

/* A sorted list in the result takes each element that is larger than its smallest (insertion sort);
 * among equals the one that came first stays ahead. Most elements of a row cost one comparison. */
#define TOP_K_INSERT(type)                                                                          \
    do {                                                                                            \
        int64_t held = 0;                                                                           \
        for (int64_t c = 0; c < p->columns; c++) {                                                  \
            if (held == p->kept && !(from[c] > values[held - 1])) continue;                         \
            int64_t at = held < p->kept ? held++ : held - 1;                                        \
            for (; at > 0 && from[c] > values[at - 1]; at--) {                                      \
                values[at] = values[at - 1];                                                        \
                top_k_set_index(indices, at, top_k_index(indices, at - 1, index_size), index_size); \
            }                                                                                       \
            values[at] = from[c];                                                                   \
            top_k_set_index(indices, at, c, index_size);                                            \
        }                                                                                           \
    } while (0)

/* Whether element (a, i) comes behind (b, j) in the result: NaN last, then by index. */
#define TOP_K_BEHIND(a, i, b, j)                       \
    ((a) < (b) || ((a) != (a) && (b) == (b)) ||        \
     (!((a) > (b)) && !((b) != (b) && (a) == (a)) && (i) > (j)))

/* Lets an element sink from `hole` in a heap of `count` whose first element is behind all others. */
#define TOP_K_SINK(type, hole, count, value, index)                                            \
    do {                                                                                       \
        type sinks = (value);                                                                  \
        int64_t at = (hole), own = (index), below;                                             \
        while ((below = 2 * at + 1) < (count)) {                                               \
            int64_t rises = top_k_index(indices, below, index_size);                           \
            if (below + 1 < (count)) {                                                         \
                int64_t other = top_k_index(indices, below + 1, index_size);                   \
                if (TOP_K_BEHIND(values[below + 1], other, values[below], rises))              \
                    below++, rises = other;                                                    \
            }                                                                                  \
            if (!TOP_K_BEHIND(values[below], rises, sinks, own)) break;                        \
            values[at] = values[below];                                                        \
            top_k_set_index(indices, at, rises, index_size);                                   \
            at = below;                                                                        \
        }                                                                                      \
        values[at] = sinks;                                                                    \
        top_k_set_index(indices, at, own, index_size);                                         \
    } while (0)

/* Puts what is behind all others of a heap of c + 1 elements at its end, outside of it. */
#define TOP_K_TAKE_LAST(type, c)                                                               \
    do {                                                                                       \
        type value = values[c], behind = values[0];                                            \
        int64_t index = top_k_index(indices, c, index_size);                                   \
        int64_t place = top_k_index(indices, 0, index_size);                                   \
        TOP_K_SINK(type, 0, c, value, index);                                                  \
        values[c] = behind;                                                                    \
        top_k_set_index(indices, c, place, index_size);                                        \
    } while (0)

/* A heap in the result keeps the largest, and is then sorted in place. */
#define TOP_K_HEAP(type)                                                                       \
    do {                                                                                       \
        for (int64_t c = 0; c < p->kept; c++) {                                                \
            values[c] = from[c];                                                               \
            top_k_set_index(indices, c, c, index_size);                                        \
        }                                                                                      \
        for (int64_t c = p->kept / 2 - 1; c >= 0; c--) {                                       \
            TOP_K_SINK(type, c, p->kept, values[c], c);                                        \
            if (stop_after(&stop, TOP_K_WORK)) return;                                         \
        }                                                                                      \
        for (int64_t c = p->kept; c < p->columns; c++) {                                       \
            if (stop_after(&stop, 1)) return;                                                  \
            int64_t last = top_k_index(indices, 0, index_size);                                \
            if (!TOP_K_BEHIND(values[0], last, from[c], c)) continue;                          \
            TOP_K_SINK(type, 0, p->kept, from[c], c);                                          \
            if (stop_after(&stop, TOP_K_WORK)) return;                                         \
        }                                                                                      \
        for (int64_t c = p->kept - 1; c > 0; c--) {                                            \
            TOP_K_TAKE_LAST(type, c);                                                          \
            if (stop_after(&stop, TOP_K_WORK)) return;                                         \
        }                                                                                      \
    } while (0)

#define TOP_K(type)                                                            \
    do {                                                                       \
        const type *from = (const type *)x[0] + row * given->columns;          \
        type *values = (type *)x[1] + row * given->kept;                       \
        if (p->kept <= TOP_K_FEW) TOP_K_INSERT(type);                          \
        else TOP_K_HEAP(type);                                                 \
    } while (0)

/* Operands: source, values, indices, circlet_stop, and how many of the columns are filled and how
 * many elements are kept of them, both null for all. A task is one row. */
CIRCLET_INLINE void top_k(const struct top_k_params *given, void *const *x, void *scratch,
                          int64_t begin, int64_t end, int type, int index_size) {
    (void)scratch;
    stop_count stop = stop_start(x[3]);
    const int64_t columns = bounded_count(x[4], given->columns);
    const int64_t kept = s_min_i64(bounded_count(x[5], given->kept), columns);
    const struct top_k_params filled = {columns, kept}, *p = &filled;
    for (int64_t row = begin; row < end && kept; row++) {
        char *indices = (char *)x[2] + row * given->kept * index_size;
        if (type == ELEMENT_F32) TOP_K(float);
        if (type == ELEMENT_I8) TOP_K(int8_t);
        if (type == ELEMENT_U8) TOP_K(uint8_t);
        if (type == ELEMENT_I16) TOP_K(int16_t);
        if (type == ELEMENT_I32) TOP_K(int32_t);
        if (type == ELEMENT_I64) TOP_K(int64_t);
        if (type == ELEMENT_F64) TOP_K(double);
    }
}

#endif
