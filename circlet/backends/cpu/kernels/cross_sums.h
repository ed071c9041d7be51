/* Sums of products of bytes where both have zero points that a run gives.
 *
 *     sum (x - zx) * (w - zw)  =  sum x * w  -  zx * sum (w - zw)  -  zw * sum x
 *
 * Zero points of x are those of rows, zero points of w those of channels. What is known of a row
 * before products are made stands in its record, what is known of channels in their qparams: zero
 * points, and in row 2 the sums of weights less these.
 */
#ifndef CIRCLET_CROSS_SUMS_H
#define CIRCLET_CROSS_SUMS_H

#include "requantize.h"

/* Of bytes as v_dot4 sees them. */
struct stored_row {
    int32_t sum;
    int32_t zero;
};

/* Where the accumulators of a tile start, [pixels][vectors]. `row_zeros`, `channel_zeros`: whether
 * rows and channels have zero points of their own; else the first one is that of all. */
CIRCLET_INLINE void cross_sums_start(vu *acc, const int32_t *qparams, const struct stored_row *rows,
                                     const int32_t row_zeros, const int32_t channel_zeros,
                                     const int pixels, const int vectors) {
    vu sums[8];
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
        sums[n] = (vu)v_load_i32(qparams + n * Q8_QPARAM + 2 * CIRCLET_LANES);
    if (row_zeros) {
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
            CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
                acc[m * vectors + n] = sums[n] * (uint32_t)-rows[m].zero;
    } else {
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
            vu start = sums[n] * (uint32_t)-rows->zero;
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) acc[m * vectors + n] = start;
        }
    }
    if (channel_zeros) {
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
            vu zero = (vu)v_load_i32(qparams + n * Q8_QPARAM);
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                acc[m * vectors + n] -= zero * (uint32_t)rows[m].sum;
        }
    } else {
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            uint32_t off = (uint32_t)qparams[0] * (uint32_t)rows[m].sum;
            CIRCLET_UNROLL for (int n = 0; n < vectors; n++) acc[m * vectors + n] -= off;
        }
    }
}

#endif
