/* Matrices known at run time only, packed as conv_f32.h reads its weights. */
#ifndef CIRCLET_PACK_F32_H
#define CIRCLET_PACK_F32_H

#include "transpose.h"

/* Rows of columns that follow each other in `y`. */
CIRCLET_INLINE void pack_f32_rows(float *to, const float *y, int64_t depth, int64_t step,
                                  int64_t count, const int width) {
    const int whole = width / CIRCLET_LANES * CIRCLET_LANES;
    for (int64_t k = 0; k < depth; k++, to += width, y += step) {
        CIRCLET_UNROLL for (int n = 0; n < whole; n += CIRCLET_LANES) {
            if (CIRCLET_LIKELY(count - n >= CIRCLET_LANES)) v_store(to + n, v_load(y + n));
            else v_store(to + n, v_load_n(y + n, s_max_i64(count - n, 0)));
        }
        if (whole < width) {
            int64_t left = s_max_i64(s_min_i64(count, width) - whole, 0);
            v_store_n(to + whole, v_load_n(y + whole, left), width - whole);
        }
    }
}

/* Elements [k0, k1) of columns [n0, n1), one by one. */
CIRCLET_INLINE void pack_f32_rest(float *to, const float *y, int64_t column, int64_t k0,
                                  int64_t k1, int64_t n0, int64_t n1, const int width) {
    for (int64_t n = n0; n < n1; n++)
        CIRCLET_NO_UNROLL for (int64_t k = k0; k < k1; k++) to[k * width + n] = y[n * column + k];
}

/* Columns whose elements follow each other in `y`: blocks are transposed in registers. */
CIRCLET_INLINE void pack_f32_columns(float *to, const float *y, int64_t depth, int64_t column,
                                     int64_t count, const int width) {
    int64_t across = count / TRANSPOSE_WIDE * TRANSPOSE_WIDE, down = depth / TRANSPOSE_WIDE * TRANSPOSE_WIDE;
    for (int64_t n = 0; n < across; n += TRANSPOSE_WIDE)
        for (int64_t k = 0; k < down; k += TRANSPOSE_WIDE)
            transpose_block_wide((char *)(to + k * width + n), width * 4,
                            (const char *)(y + n * column + k), column * 4, TRANSPOSE_WIDE, TRANSPOSE_WIDE);
    pack_f32_rest(to, y, column, down, depth, 0, across, width);
    pack_f32_rest(to, y, column, 0, depth, across, count, width);
    for (int64_t k = 0; k < depth; k++)
        CIRCLET_NO_UNROLL for (int64_t n = count; n < width; n++) to[k * width + n] = 0;
}

/* `count` of at most `width` columns: for each of `depth` elements a row of columns. `step` and
 * `column` are the elements between neighbours of either kind in `y`; one of them is 1. */
CIRCLET_INLINE void pack_f32(float *to, const float *y, int64_t depth, int64_t step,
                             int64_t column, int64_t count, const int width) {
    if (column == 1) pack_f32_rows(to, y, depth, step, count, width);
    else pack_f32_columns(to, y, depth, column, count, width);
}

#endif
