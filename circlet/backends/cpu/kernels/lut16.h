/* Functions of one int16 operand as a table of 65536 results, indexed by the operand's bits. */
#ifndef CIRCLET_LUT16_H
#define CIRCLET_LUT16_H

#include "simd.h"

struct lut16_params {
    int64_t count;    /* elements */
    int64_t per_task; /* of a task */
};

/* Operands: source, table, result. */
CIRCLET_INLINE void lut16(const struct lut16_params *p, void *const *operands, void *scratch,
                          int64_t begin, int64_t end) {
    (void)scratch;
    const uint16_t *from = operands[0], *table = operands[1];
    uint16_t *to = operands[2];
    int64_t last = s_min_i64(end * p->per_task, p->count);
    for (int64_t i = begin * p->per_task; i < last; i++) to[i] = table[from[i]];
}

#endif
