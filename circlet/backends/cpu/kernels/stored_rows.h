/* Rows of stored bytes as the 8-bit products take them, with what cross_sums.h asks of each. */
#ifndef CIRCLET_STORED_ROWS_H
#define CIRCLET_STORED_ROWS_H

#include "cross_sums.h"
#include "rows.h"
#include "stored_image.h"

struct stored_rows_params {
    int64_t rows;
    int64_t rows_per_task;
    int64_t depth;    /* bytes of a row */
    int64_t sizes[6]; /* of the stack of matrices, and their rows */
    int64_t from[7];  /* bytes between rows */
    int64_t zeros[7]; /* between the zero points of rows */
    int32_t flip;     /* of zero points, where what is stored has another sign than v_dot4 takes */
};

/* The sum of bytes whose top bits are changed, as unsigned ones. */
CIRCLET_INLINE uint32_t stored_sum(const uint8_t *from, int64_t n, const uint8_t change) {
    const v16u8 ones = (v16u8){0} + 1;
    const v16u8 places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    v4i32 sum = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) sum = v16_sum_4(sum, v16_load(from + i) ^ change, ones);
    if (i < n) {
        v16u8 inside = (v16u8)(places < (v16u8)((uint8_t)(n - i) - (v16u8){0})) & 1;
        sum = v16_sum_4(sum, v16_load_n(from + i, n - i) ^ change, inside);
    }
    return (uint32_t)sum[0] + (uint32_t)sum[1] + (uint32_t)sum[2] + (uint32_t)sum[3];
}

/* Operands: stored rows, their zero points or nothing, the rows side by side and, with `flips`, with
 * changed top bits (where such `copies` are made), a record of each. A task is some rows.
 *
 * is_signed: The type of the bytes, and of their zero points.
 * adds: Whether records have sums.
 */
CIRCLET_INLINE void stored_rows(const struct stored_rows_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int is_signed, const int copies,
                                const int flips, const int adds) {
    (void)scratch;
    const int seen_signed = is_signed != flips;
    const int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task, next; row < last; row = next) {
        next = row + rows_run(row, last, p->sizes);
        const uint8_t *from = (const uint8_t *)x[0] + rows_offset(row, p->sizes, p->from);
        const uint8_t *zero = x[1];
        if (zero) zero += rows_offset(row, p->sizes, p->zeros);
        for (; row < next; row++, from += p->from[ROWS_OUTER - 1]) {
            struct stored_row made = {0, p->flip};
            if (zero) {
                made.zero += is_signed ? (int8_t)*zero : *zero;
                zero += p->zeros[ROWS_OUTER - 1];
            }
            if (copies) stored_copy((uint8_t *)x[2] + row * p->depth, from, p->depth, flips);
            if (adds)
                made.sum = (int32_t)(stored_sum(from, p->depth, is_signed ? 0x80 : 0) -
                                     (seen_signed ? 128 * (uint32_t)p->depth : 0));
            ((struct stored_row *)x[3])[row] = made;
        }
    }
}

#endif
