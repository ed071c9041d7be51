/* The bucket of each element, by binary search. */
#ifndef CIRCLET_BUCKETIZE_H
#define CIRCLET_BUCKETIZE_H

#include "element.h"

struct bucketize_params {
    int64_t count;      /* elements */
    int64_t task_count; /* elements of a task */
    int64_t boundaries; /* where buckets begin */
};

/* How many of the rising boundaries an element is not below. NaN is below none. */
CIRCLET_INLINE int32_t bucketize_find(const float *boundaries, int64_t count, double value) {
    int64_t low = 0;
    while (count > 0) {
        int64_t half = count / 2;
        int is_below = value < boundaries[low + half];
        low = is_below ? low : low + half + 1;
        count = is_below ? half : count - half - 1;
    }
    return (int32_t)low;
}

/* Operands: source, boundaries, result. */
CIRCLET_INLINE void bucketize(const struct bucketize_params *p, void *const *x, void *scratch,
                              int64_t begin, int64_t end, int type) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->task_count, p->count);
    for (int64_t i = begin * p->task_count; i < last; i++) {
        double value = type == ELEMENT_F32 ? ((const float *)x[0])[i] : ((const int32_t *)x[0])[i];
        ((int32_t *)x[2])[i] = bucketize_find(x[1], p->boundaries, value);
    }
}

#endif
