/* The end of a run, asked for by a kernel that cannot go on. */
#ifndef CIRCLET_REFUSAL_H
#define CIRCLET_REFUSAL_H

#include "simd.h"

/* Has the run end, since an operand holds what the operator does not allow. */
CIRCLET_INLINE void refuse_run(void *stop) {
    circlet_stop *asked = stop;
    if (asked) asked->refuse(asked);
}

struct refuse_params {
    int32_t unused;
};

/* Operands: circlet_stop. One task, of a graph that must not be taken. */
CIRCLET_INLINE void refuse(const struct refuse_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end) {
    (void)p, (void)scratch, (void)begin, (void)end;
    refuse_run(x[0]);
}

#endif
