/* Sums of products of bytes, a few rows by matrices whose columns lie side by side: these are read
 * where they lie, once, as packing them takes longer than the products.
 *
 * A task is a block of columns of one matrix. Four bytes of each column are made by zips, which
 * leave columns in another order until results are stored. Zero points are taken off as cross_sums.h
 * says; the sums of columns come from products with ones.
 */
#ifndef CIRCLET_CROSS_ROWS_Q8_H
#define CIRCLET_CROSS_ROWS_Q8_H

#include "element.h"
#include "rows.h"
#include "stored_rows.h"

struct cross_rows_q8_params {
    int64_t depth;    /* bytes of a row */
    int64_t columns;  /* at least those of a block */
    int64_t blocks;   /* of columns of a matrix */
    int64_t x_row;    /* bytes between rows */
    int64_t sizes[6]; /* of the stack of matrices */
    int64_t x[7];     /* bytes between matrices on the left */
    int64_t y[7];     /* and on the right */
    int64_t x_zeros[7]; /* between the zero points of matrices on the left, */
    int64_t y_zeros[7]; /* on the right, */
    int64_t x_zero_row; /* of rows, */
    int64_t y_zero_column; /* and of columns: 1, or 0 where a matrix has one */
};

#define CROSS_ROWS_AHEAD 16 /* rows of the right matrix between those at work and those fetched */

/* Four rows of a register of columns as words of four bytes, of which `count` rows exist. */
CIRCLET_INLINE void cross_rows_words(vu8 *quads, const uint8_t *y, int64_t step, int64_t count,
                                     const uint8_t flip) {
    vu8 rows[4] = {{0}};
    CIRCLET_UNROLL for (int i = 0; i < 4; i++)
        if (i < count) rows[i] = v_load_u8(y + i * step) ^ flip;
    v_quads_u8(quads, rows[0], rows[1], rows[2], rows[3]);
}

/* `count` bytes of all rows, at most four, times those of a block of columns. */
CIRCLET_INLINE void cross_rows_step(vi *acc, vi *sums, const struct cross_rows_q8_params *p,
                                    const uint8_t *x, const uint8_t *y, const int count,
                                    const int MR, const int NB, const uint8_t x_flip,
                                    const uint8_t y_flip) {
    const vu8 ones = (vu8){0} + 1;
    const uint32_t flips = x_flip * 0x01010101u >> 8 * (4 - count);
    vu8 data[4];
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        const uint8_t *at = x + m * p->x_row;
        data[m] = count == 4 ? v_splat_4u8(at) : v_splat_nu8(at, count);
        if (flips) data[m] = data[m] ^ (vu8)v_splat_i32((int32_t)flips);
    }
    CIRCLET_UNROLL for (int b = 0; b < NB; b++) {
        vu8 quads[4];
        cross_rows_words(quads, y + b * CIRCLET_VBYTES, p->columns, count, y_flip);
        CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
            sums[4 * b + i] = v_dot4(sums[4 * b + i], ones, (vi8)quads[i]);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                vi *sum = &acc[(m * NB + b) * 4 + i];
                *sum = v_dot4(*sum, data[m], (vi8)quads[i]);
            }
        }
    }
}

/* The zero points of a register of columns, as products see them. */
CIRCLET_INLINE vi cross_rows_zero(const uint8_t *zeros, int64_t step, const int is_signed) {
    const int type = is_signed ? ELEMENT_I8 : ELEMENT_U8;
    vi zero = v_zero_i32();
    if (zeros && step) zero = element_load_i32(zeros, CIRCLET_LANES, type);
    if (zeros && !step) zero = element_splat_i32(zeros, type);
    if (!is_signed) zero = zero - 128;
    return zero;
}

/* Operands: rows, their zero points, matrices, their zero points, results. Zero points may be null.
 *
 * MR: Rows. NB: Registers of bytes of a block of columns.
 * x_signed, y_signed: Types of bytes. flips: Whether those of rows change top bits for v_dot4.
 */
CIRCLET_INLINE void cross_rows_q8(const struct cross_rows_q8_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end, const int MR,
                                  const int NB, const int x_signed, const int y_signed,
                                  const int flips) {
    (void)scratch;
    const int64_t width = NB * CIRCLET_VBYTES, whole = p->depth & ~3ll;
    const uint32_t depth = (uint32_t)p->depth;
    const uint8_t x_flip = flips ? 0x80 : 0, y_flip = y_signed ? 0 : 0x80;
    const int32_t offset = !flips ? 0 : x_signed ? 128 : -128;
    for (int64_t task = begin; task < end; task++) {
        int64_t matrix = task / p->blocks;
        int64_t first = s_min_i64(task % p->blocks * width, p->columns - width);
        const uint8_t *x = (const uint8_t *)operands[0] + rows_offset(matrix, p->sizes, p->x);
        const uint8_t *y = (const uint8_t *)operands[2] + rows_offset(matrix, p->sizes, p->y) + first;
        vi acc[32], sums[8];
        CIRCLET_UNROLL for (int i = 0; i < 4 * MR * NB; i++) acc[i] = v_zero_i32();
        CIRCLET_UNROLL for (int i = 0; i < 4 * NB; i++) sums[i] = v_zero_i32();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < whole; k += 4) {
            const uint8_t *from = y + k * p->columns;
            CIRCLET_UNROLL for (int i = 0; i < 4; i++)
                __builtin_prefetch(from + (CROSS_ROWS_AHEAD + i) * p->columns);
            cross_rows_step(acc, sums, p, x + k, from, 4, MR, NB, x_flip, y_flip);
        }
        const uint8_t *last_x = x + whole, *last_y = y + whole * p->columns;
        if (depth % 4 == 1)
            cross_rows_step(acc, sums, p, last_x, last_y, 1, MR, NB, x_flip, y_flip);
        if (depth % 4 == 2)
            cross_rows_step(acc, sums, p, last_x, last_y, 2, MR, NB, x_flip, y_flip);
        if (depth % 4 == 3)
            cross_rows_step(acc, sums, p, last_x, last_y, 3, MR, NB, x_flip, y_flip);
        const uint8_t *x_zero = operands[1], *y_zero = operands[3];
        if (x_zero) x_zero += rows_offset(matrix, p->sizes, p->x_zeros);
        if (y_zero)
            y_zero += rows_offset(matrix, p->sizes, p->y_zeros) + first * p->y_zero_column;
        int32_t *out = (int32_t *)operands[4] + matrix * MR * p->columns + first;
        CIRCLET_UNROLL for (int b = 0; b < NB; b++) v_order_quads((vu8 *)(sums + 4 * b));
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            const uint8_t *own = x_zero ? x_zero + m * p->x_zero_row : x_zero;
            int32_t zero = offset + (!own ? 0 : x_signed ? *(const int8_t *)own : *own);
            uint32_t sum = stored_sum(x + m * p->x_row, p->depth, x_signed ? 0x80 : 0);
            if (x_signed != flips) sum -= 128 * depth;
            CIRCLET_UNROLL for (int b = 0; b < NB; b++) {
                v_order_quads((vu8 *)(acc + (m * NB + b) * 4));
                CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
                    const int64_t place = b * CIRCLET_VBYTES + i * CIRCLET_LANES;
                    const uint8_t *at = y_zero ? y_zero + place * p->y_zero_column : y_zero;
                    vu off = (vu)cross_rows_zero(at, p->y_zero_column, y_signed);
                    vu made = (vu)acc[(m * NB + b) * 4 + i];
                    made -= ((vu)sums[4 * b + i] - off * depth) * (uint32_t)zero + off * sum;
                    v_store_i32(out + m * p->columns + place, (vi)made);
                }
            }
        }
    }
}

#endif
