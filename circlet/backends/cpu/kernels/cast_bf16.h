/* A run of floats rounded to bfloat16, for kernels that read it several times. */
#ifndef CIRCLET_CAST_BF16_H
#define CIRCLET_CAST_BF16_H

#include "bf16.h"

struct cast_bf16_params {
    int64_t count;      /* elements */
    int64_t task_count; /* elements of a task */
};

/* Operands: floats, result. */
CIRCLET_INLINE void cast_bf16(const struct cast_bf16_params *p, void *const *operands,
                              void *scratch, int64_t begin, int64_t end) {
    int64_t first = begin * p->task_count, stop = s_min_i64(end * p->task_count, p->count);
    (void)scratch;
    bf16_cast((uint16_t *)operands[1] + first, (const float *)operands[0] + first, stop - first);
}

#endif
