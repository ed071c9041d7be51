/* The iteration space of kernels over strided operands: outer sizes, then rows of an inner size.
 *
 * The parameters of such a kernel begin with a `struct row_loops`, and have ROWS_STRIDES strides
 * for each operand, the last of them that of the inner loop. A task is `per_task` whole rows, or
 * `chunk` elements of one row where chunk < inner: there is work for every thread in few long rows
 * too.
 */
#ifndef CIRCLET_ROWS_H
#define CIRCLET_ROWS_H

#include "simd.h"

#define ROWS_OUTER 6
#define ROWS_STRIDES 7

struct row_loops {
    int64_t count;             /* rows in all */
    int64_t per_task;          /* rows of a task */
    int64_t inner;             /* elements of a row, or bytes where a kernel moves bytes */
    int64_t chunk;             /* of them, those that one task does */
    int64_t sizes[ROWS_OUTER]; /* outer sizes */
};

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

CIRCLET_INLINE rows_span rows_span_of(const struct row_loops *loops, int64_t task) {
    const int64_t count = loops->count, per_task = loops->per_task;
    const int64_t inner = loops->inner, chunk = loops->chunk;
    int64_t chunks = (inner + chunk - 1) / chunk;
    int64_t first = task / chunks * per_task, begin = task % chunks * chunk;
    return (rows_span){first, s_min_i64(first + per_task, count), begin,
                       s_min_i64(begin + chunk, inner)};
}

/* Rows from `row` on that lie one last outer stride apart, at most up to `last`. */
CIRCLET_INLINE int64_t rows_run(int64_t row, int64_t last, const int64_t *sizes) {
    return s_min_i64(sizes[ROWS_OUTER - 1] - row % sizes[ROWS_OUTER - 1], last - row);
}

#endif
