/* Columns of floats that lie side by side, as the channels of pixels do in planes: a few vectors of
 * columns at a time. */
#ifndef CIRCLET_COLUMNS_H
#define CIRCLET_COLUMNS_H

#include "element.h"

#define COLUMN_VECTORS 4 /* of a block, whose latencies overlap */

struct columns {
    int64_t blocks;          /* of columns, in all */
    int64_t blocks_per_task; /* of a task */
    int64_t plane_blocks;    /* of one plane */
    int64_t columns;         /* of a plane, and so between the elements of a column */
    int64_t count;           /* elements of a column */
};

/* What a kernel does with columns of `vectors` vectors, each of which has n elements; `form` is its
 * own. */
typedef void column_kernel(const void *params, float *to, const float *from, int64_t n, int vectors,
                           int form);

/* Operands: source, result. */
CIRCLET_INLINE void for_columns(const struct columns *p, const void *params, void *const *x,
                                int64_t begin, int64_t end, column_kernel *kernel,
                                const int form) {
    const int64_t width = COLUMN_VECTORS * CIRCLET_LANES;
    const int64_t last = s_min_i64(end * p->blocks_per_task, p->blocks);
    for (int64_t block = begin * p->blocks_per_task; block < last; block++) {
        int64_t first = block % p->plane_blocks * width;
        int64_t start = block / p->plane_blocks * p->count * p->columns + first;
        const float *from = (const float *)x[0] + start;
        float *to = (float *)x[1] + start;
        int64_t left = p->columns - first;
        if (left >= width) {
            kernel(params, to, from, CIRCLET_LANES, COLUMN_VECTORS, form);
            continue;
        }
        CIRCLET_NO_UNROLL for (int64_t i = 0; i < left; i += CIRCLET_LANES)
            kernel(params, to + i, from + i, s_min_i64(left - i, CIRCLET_LANES), 1, form);
    }
}

#endif
