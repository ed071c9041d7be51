/* The largest elements of each row, in falling order, and their indices. */
#ifndef CIRCLET_TOP_K_H
#define CIRCLET_TOP_K_H

#include "element.h"

struct top_k_params {
    int64_t columns; /* elements of a row */
    int64_t kept;    /* of them, 1 or more */
};

/* A sorted list in the result takes each element that is larger than its smallest (insertion sort);
 * among equals the one that came first stays ahead. Most elements of a row cost one comparison. */
#define TOP_K(type)                                                                                 \
    do {                                                                                            \
        const type *from = (const type *)x[0] + row * p->columns;                                   \
        type *values = (type *)x[1] + row * p->kept;                                                \
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

CIRCLET_INLINE int64_t top_k_index(const void *list, int64_t at, int size) {
    return size == 2 ? ((const int16_t *)list)[at] : ((const int32_t *)list)[at];
}

CIRCLET_INLINE void top_k_set_index(void *list, int64_t at, int64_t value, int size) {
    if (size == 2) ((int16_t *)list)[at] = (int16_t)value;
    else ((int32_t *)list)[at] = (int32_t)value;
}

/* Operands: source, values, indices. A task is one row. */
CIRCLET_INLINE void top_k(const struct top_k_params *p, void *const *x, void *scratch, int64_t begin,
                        int64_t end, int type, int index_size) {
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        char *indices = (char *)x[2] + row * p->kept * index_size;
        if (type == ELEMENT_F32) TOP_K(float);
        if (type == ELEMENT_I8) TOP_K(int8_t);
        if (type == ELEMENT_U8) TOP_K(uint8_t);
        if (type == ELEMENT_I16) TOP_K(int16_t);
        if (type == ELEMENT_I32) TOP_K(int32_t);
        if (type == ELEMENT_I64) TOP_K(int64_t);
    }
}

#endif
