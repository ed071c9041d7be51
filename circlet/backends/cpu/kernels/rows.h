/* The iteration space of kernels over strided operands: outer sizes, then rows of an inner size.
 *
 * The parameters of such a kernel have the fields rows, rows_per_task, inner, chunk,
 * sizes[ROWS_OUTER], and per operand ROWS_OUTER + 1 strides, the last of them that of the inner
 * loop. A task is `rows_per_task` whole rows, or `chunk` elements of one row where chunk < inner.
 */
#ifndef CIRCLET_ROWS_H
#define CIRCLET_ROWS_H

#include "simd.h"

#define ROWS_OUTER 6
#define ROWS_STRIDES 7

/* Where row `index` of an operand starts. */
CIRCLET_INLINE int64_t rows_offset(int64_t index, const int64_t *sizes, const int64_t *strides) {
    int64_t offset = 0;
    for (int axis = ROWS_OUTER - 1; axis >= 0 && index; axis--) {
        offset += index % sizes[axis] * strides[axis];
        index /= sizes[axis];
    }
    return offset;
}

typedef struct rows_span {
    int64_t first, last; /* rows */
    int64_t begin, end;  /* elements of each */
} rows_span;

#define ROWS_SPAN(p, task) rows_span_of(task, (p)->rows, (p)->rows_per_task, (p)->inner, (p)->chunk)

CIRCLET_INLINE rows_span rows_span_of(int64_t task, int64_t rows, int64_t rows_per_task,
                                      int64_t inner, int64_t chunk) {
    int64_t chunks = (inner + chunk - 1) / chunk;
    int64_t first = task / chunks * rows_per_task, begin = task % chunks * chunk;
    return (rows_span){first, s_min_i64(first + rows_per_task, rows), begin,
                       s_min_i64(begin + chunk, inner)};
}

/* Rows from `row` on that lie one last outer stride apart, at most up to `last`. */
CIRCLET_INLINE int64_t rows_run(int64_t row, int64_t last, const int64_t *sizes) {
    return s_min_i64(sizes[ROWS_OUTER - 1] - row % sizes[ROWS_OUTER - 1], last - row);
}

#endif
