/* Two elements joined into one, for every element type, by functions that files name. */
#ifndef CIRCLET_JOIN_H
#define CIRCLET_JOIN_H

#include "copy.h"

enum {
    JOIN_F32, JOIN_F64, JOIN_I8, JOIN_U8, JOIN_I16, JOIN_U16, JOIN_I32, JOIN_U32, JOIN_I64, JOIN_U64
};

/* MAXIMUM and MINIMUM give the second of a pair that cannot be ordered, LARGER and SMALLER the
 * first. */
enum {
    JOIN_ADD, JOIN_MUL, JOIN_MAXIMUM, JOIN_MINIMUM, JOIN_ALL, JOIN_ANY, JOIN_LARGER, JOIN_SMALLER,
    JOIN_UPDATE
};

CIRCLET_INLINE int64_t join_size(int type) {
    return type == JOIN_F64 || type >= JOIN_I64             ? 8
           : type == JOIN_F32 || type >= JOIN_I32           ? 4
           : type == JOIN_I16 || type == JOIN_U16           ? 2
                                                            : 1;
}

#define JOIN_ELEMENTS(element, whole)                                                     \
    for (int64_t i = 0; i < n; i++) {                                                     \
        element *into = (element *)to + i * to_step;                                      \
        element a = *into, b = ((const element *)from)[i * from_step];                    \
        *into = join == JOIN_ADD       ? (element)((whole)a + (whole)b)                   \
                : join == JOIN_MUL     ? (element)((whole)a * (whole)b)                   \
                : join == JOIN_MAXIMUM ? (a >= b ? a : b)                                 \
                : join == JOIN_MINIMUM ? (a <= b ? a : b)                                 \
                : join == JOIN_ALL     ? (element)(a != 0 && b != 0)                      \
                : join == JOIN_ANY     ? (element)(a != 0 || b != 0)                      \
                : join == JOIN_LARGER  ? (a < b ? b : a)                                  \
                : join == JOIN_SMALLER ? (b < a ? b : a)                                  \
                                       : b;                                               \
    }

/* Join n elements into others; steps are in elements. Whole numbers wrap. */
CIRCLET_INLINE void join_run(void *to, int64_t to_step, const void *from, int64_t from_step,
                             int64_t n, int join, int type) {
    if (type == JOIN_F32) JOIN_ELEMENTS(float, float)
    else if (type == JOIN_F64) JOIN_ELEMENTS(double, double)
    else if (type == JOIN_I8) JOIN_ELEMENTS(int8_t, uint32_t)
    else if (type == JOIN_U8) JOIN_ELEMENTS(uint8_t, uint32_t)
    else if (type == JOIN_I16) JOIN_ELEMENTS(int16_t, uint32_t)
    else if (type == JOIN_U16) JOIN_ELEMENTS(uint16_t, uint32_t)
    else if (type == JOIN_I32) JOIN_ELEMENTS(int32_t, uint32_t)
    else if (type == JOIN_U32) JOIN_ELEMENTS(uint32_t, uint32_t)
    else if (type == JOIN_I64) JOIN_ELEMENTS(int64_t, uint64_t)
    else JOIN_ELEMENTS(uint64_t, uint64_t)
}

#endif
