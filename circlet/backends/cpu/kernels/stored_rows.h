/* Stored rows as the 8-bit products take them, with their zero point, which a run computes. */
#ifndef CIRCLET_STORED_ROWS_H
#define CIRCLET_STORED_ROWS_H

#include "hybrid_q8.h"

struct stored_rows_params {
    int64_t bytes;
    int32_t flip; /* of zero points, where what is stored has another sign than v_dot4 takes */
};

/* Operands: stored rows, their zero point or nothing, bytes with the top bits changed (with
 * `copies`), the record of the zero point. One task. `is_signed`: the type of the zero point. */
CIRCLET_INLINE void stored_rows(const struct stored_rows_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int is_signed,
                                const int copies) {
    (void)scratch, (void)begin, (void)end;
    int32_t zero = !x[1] ? 0 : is_signed ? *(const int8_t *)x[1] : *(const uint8_t *)x[1];
    *(struct hybrid_scale *)x[3] = (struct hybrid_scale){1.0f, zero + p->flip};
    if (!copies) return;
    const uint8_t *from = x[0];
    uint8_t *to = x[2];
    int64_t i = 0;
    for (; i + CIRCLET_VBYTES <= p->bytes; i += CIRCLET_VBYTES)
        v_store_u8(to + i, v_load_u8(from + i) ^ 0x80);
    CIRCLET_NO_UNROLL for (; i < p->bytes; i++) to[i] = from[i] ^ 0x80;
}

#endif
