/* Products of stacks of float matrices whose right operand is known at run time only.
 *
 * A task is one block of NV * CIRCLET_LANES columns of one product: the block is packed into
 * scratch memory as conv_f32.h wants its weights, then the rows go by as pixels.
 */
#ifndef CIRCLET_MATMUL_F32_H
#define CIRCLET_MATMUL_F32_H

#include "conv_f32.h"
#include "pack_f32.h"
#include "rows.h"

struct matmul_f32_params {
    int64_t rows;     /* of the result */
    int64_t depth;    /* elements of a sum */
    int64_t columns;  /* of the result */
    int64_t blocks;   /* of columns */
    int64_t x_row;    /* elements of the left operand between rows */
    int64_t x_depth;  /* and between elements of a sum */
    int64_t y_depth;  /* elements of the right operand between elements of a sum */
    int64_t y_column; /* and between columns */
    int64_t sizes[6]; /* of the stack */
    int64_t x[7];     /* elements of the left operand between matrices */
    int64_t y[7];     /* elements of the right operand between matrices */
};

enum matmul_f32_form { MATMUL_PACKED, MATMUL_DIRECT, MATMUL_DOTS };

CIRCLET_INLINE vf matmul_f32_load(const float *p, int64_t n) {
    return CIRCLET_LIKELY(n == CIRCLET_LANES) ? v_load(p) : v_load_n(p, n);
}

/* One block of columns of at most MR rows, read where they lie: too few rows to pack columns for.
 * The last block overlaps the one before. */
CIRCLET_INLINE void matmul_f32_direct(const struct matmul_f32_params *p, const float *x,
                                      const float *y, float *out, int64_t first, const int MR,
                                      const int NV) {
    vf acc[16][8];
    first = s_min_i64(first, p->columns - NV * CIRCLET_LANES);
    y += first, out += first;
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_zero();
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < p->depth; k++, x += p->x_depth, y += p->y_depth) {
        vf right[8];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) right[v] = v_load(y + v * CIRCLET_LANES);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            vf left = v_splat(x[m * p->x_row]);
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                acc[m][v] = v_fma(left, right[v], acc[m][v]);
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            v_store(out + m * p->columns + v * CIRCLET_LANES, acc[m][v]);
}

/* Columns [first, stop) of MR rows where both operands have the elements of a sum next to each
 * other: sums over lanes. The last four columns overlap those before. */
CIRCLET_INLINE void matmul_f32_dots(const struct matmul_f32_params *p, const float *x,
                                    const float *y, float *out, int64_t first, int64_t stop,
                                    const int MR) {
    for (; first < stop; first += 4) {
        int64_t column = s_min_i64(first, p->columns - 4);
        const float *from = y + column * p->y_column;
        vf acc[8][4];
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            CIRCLET_UNROLL for (int c = 0; c < 4; c++) acc[m][c] = v_zero();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < p->depth; k += CIRCLET_LANES) {
            int64_t n = s_min_i64(p->depth - k, CIRCLET_LANES);
            vf right[4];
            CIRCLET_UNROLL for (int c = 0; c < 4; c++)
                right[c] = matmul_f32_load(from + c * p->y_column + k, n);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                vf left = matmul_f32_load(x + m * p->x_row + k, n);
                CIRCLET_UNROLL for (int c = 0; c < 4; c++)
                    acc[m][c] = v_fma(left, right[c], acc[m][c]);
            }
        }
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            CIRCLET_UNROLL for (int c = 0; c < 4; c++)
                out[m * p->columns + column + c] = v_fold_add(acc[m][c]);
    }
}

/* Operands: left, right, result. TURNED: the left one is stored transposed and packed, too.
 * Where the form is not MATMUL_PACKED, all rows go by at once: MR of them. */
CIRCLET_INLINE void matmul_f32(const struct matmul_f32_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int MR,
                               const int NV, const int TURNED,
                               const enum matmul_f32_form FORM) {
    const int width = NV * CIRCLET_LANES;
    float *panel = scratch, *turned = panel + (p->depth + 1) * width;
    struct conv_f32_params tile = {0};
    tile.in_pixel = TURNED ? p->depth : p->x_row, tile.out_pixel = p->columns;
    tile.tap_rows = tile.tap_runs = 1, tile.run = p->depth;
    tile.low = -__builtin_inff(), tile.high = __builtin_inff();
    for (int64_t task = begin; task < end; task++) {
        int64_t batch = task / p->blocks, first = task % p->blocks * width;
        int64_t left = p->columns - first;
        const float *x = (const float *)operands[0] + rows_offset(batch, p->sizes, p->x);
        const float *y = (const float *)operands[1] + rows_offset(batch, p->sizes, p->y);
        float *out = (float *)operands[2] + batch * p->rows * p->columns;
        if (FORM != MATMUL_PACKED) {
            int64_t stop = s_min_i64(first + width, p->columns);
            if (FORM == MATMUL_DIRECT) matmul_f32_direct(p, x, y, out, first, MR, NV);
            else matmul_f32_dots(p, x, y, out, first, stop, MR);
            continue;
        }
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) v_store(panel + v * CIRCLET_LANES, v_zero());
        pack_f32(panel + width, y + first * p->y_column, p->depth, p->y_depth, p->y_column,
                 s_min_i64(left, width), width);
        if (TURNED) {
            for (int64_t m = 0; m < p->rows; m++)
                for (int64_t k = 0; k < p->depth; k++)
                    turned[m * p->depth + k] = x[m * p->x_row + k * p->x_depth];
            x = turned;
        }
        for (int64_t m = 0; m < p->rows; m += MR) {
            int64_t row = s_min_i64(m, p->rows - MR);
            float *to = out + row * p->columns + first;
            conv_f32_tile(&tile, x + row * tile.in_pixel, panel, to, to, left, 0, MR, NV, 0, 0);
        }
    }
}

#endif
