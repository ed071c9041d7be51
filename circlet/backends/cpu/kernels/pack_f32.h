/* Matrices known at run time only, packed as conv_f32.h reads its weights. */
#ifndef CIRCLET_PACK_F32_H
#define CIRCLET_PACK_F32_H

#include "simd.h"

/* `count` of at most `width` columns: for each of `depth` elements a row of columns. `step` and
 * `column` are the elements between neighbours of either kind in `y`. */
CIRCLET_INLINE void pack_f32(float *to, const float *y, int64_t depth, int64_t step,
                             int64_t column, int64_t count, const int width) {
    const int whole = width / CIRCLET_LANES * CIRCLET_LANES;
    for (int64_t k = 0; k < depth; k++, to += width, y += step) {
        if (column == 1 && count == width) {
            CIRCLET_UNROLL for (int n = 0; n < whole; n += CIRCLET_LANES)
                v_store(to + n, v_load(y + n));
            CIRCLET_UNROLL for (int n = whole; n < width; n++) to[n] = y[n];
            continue;
        }
        CIRCLET_NO_UNROLL for (int64_t n = 0; n < count; n++) to[n] = y[n * column];
        CIRCLET_NO_UNROLL for (int64_t n = count; n < width; n++) to[n] = 0;
    }
}

#endif
