/* Sums of 64-bit integers over axes, modulo 2^64. */
#ifndef CIRCLET_REDUCE_I64_H
#define CIRCLET_REDUCE_I64_H

#include "reduction.h"

struct reduce_i64_params {
    struct reduce_params all;
};

/* Operands: source, sums. A task is a row of kept elements. */
CIRCLET_INLINE void reduce_i64(const struct reduce_i64_params *params, void *const *x,
                               void *scratch, int64_t begin, int64_t end) {
    const struct reduce_params *p = &params->all;
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->source);
        for (int64_t i = 0; i < p->inner; i++) {
            uint64_t sum = 0;
            for (int64_t run = 0; run < reduce_runs(p); run++) {
                const char *at = from + i * 8 + reduce_offset(p, run);
                for (int64_t n = 0; n < p->reduced[3]; n++)
                    sum += *(const uint64_t *)(at + n * p->steps[3]);
            }
            ((uint64_t *)x[1])[row * p->inner + i] = sum;
        }
    }
}

#endif
