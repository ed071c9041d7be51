/* Products of stacks of float matrices, both known at run time only, over bfloat16.
 *
 * A task is one block of NV * CIRCLET_LANES columns of one product, packed into scratch memory as
 * conv_bf16.h wants its weights.
 */
#ifndef CIRCLET_MATMUL_BF16_H
#define CIRCLET_MATMUL_BF16_H

#include "conv_bf16.h"
#include "matmul.h"
#include "pack_f32.h"
#include "stop.h"

struct matmul_bf16_params {
    struct matmul_sizes size;
};

/* Operands: left as cast_bf16.h makes it, right, result, circlet_stop. */
CIRCLET_INLINE void matmul_bf16(const struct matmul_bf16_params *p, void *const *operands,
                                void *scratch, int64_t begin, int64_t end, const int MR,
                                const int NV) {
    const int width = NV * CIRCLET_LANES;
    const struct matmul_sizes *s = &p->size;
    const int64_t step = stop_rows(s->depth * width, MR);
    stop_count stop = stop_start(operands[3]);
    float *panel = scratch;
    struct conv_f32_params tile = {0};
    tile.in.pixel = s->depth, tile.out.pixel = s->columns;
    tile.tap_rows = tile.tap_runs = 1, tile.run = s->depth;
    tile.low = -__builtin_inff(), tile.high = __builtin_inff();
    for (int64_t task = begin; task < end; task++) {
        struct matmul_place place = matmul_find(s, task, width);
        int64_t left = s->columns - place.first;
        const uint16_t *x = (const uint16_t *)operands[0] + place.x;
        float *out = (float *)operands[2] + place.out;
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) v_store(panel + v * CIRCLET_LANES, v_zero());
        pack_f32(panel + width, (const float *)operands[1] + place.y, s->depth, s->y_depth,
                 s->y_column, s_min_i64(left, width), width);
        conv_bf16_pairs(panel + width, s->depth, NV);
        for (int64_t m = 0, next; m < s->rows; m = next) {
            next = m + step;
            for (; m < s_min_i64(next, s->rows); m += MR) {
                int64_t row = s_min_i64(m, s->rows - MR);
                float *to = out + row * s->columns;
                conv_bf16_tile(&tile, x + row * s->depth, panel, to, to, left, 0, MR, NV, 0);
            }
            if (stop_after(&stop, STOP_EVERY)) return;
        }
    }
}

#endif
