/* What conv_bf16.h computes, on AMX tiles: the steps of amx_conv_q8.h over pairs of bfloat16.
 *
 * Sums of two neighbours are added apart from each other, so that results are not those of vectors
 * to the last bit.
 */
#ifndef CIRCLET_AMX_CONV_BF16_H
#define CIRCLET_AMX_CONV_BF16_H

#include "amx_conv_q8.h"
#include "conv_f32.h"

struct amx_conv_bf16_params {
    struct amx_conv_q8_params tiles; /* of bytes of the input */
    struct conv_f32_params conv;     /* strides and limits of results */
};

/* Operands: input as cast_bf16.h makes it, packed weights, biases, output, addend (or null).
 * groups, tiles: Tiles of pixels and of channels that a step multiplies; at most four products. */
CIRCLET_INLINE void amx_conv_bf16(const struct amx_conv_bf16_params *params, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, const int groups,
                                  const int tiles, const int ADD) {
    const struct amx_conv_q8_params *p = &params->tiles;
    const struct conv_f32_params *f = &params->conv;
    const int columns = tiles * AMX_ROWS, vectors = columns / CIRCLET_LANES;
    const int64_t run_steps = (p->run_bytes + AMX_ROW_BYTES - 1) / AMX_ROW_BYTES;
    const int64_t steps = p->runs_down * p->runs_across * run_steps;
    const float *sums = scratch;
    struct amx_shapes shapes = amx_conv_q8_shapes(p);
    struct amx amx;
    AMX_BEGIN(&amx, &shapes);
    for (int64_t task = begin; task < end; task++) {
        struct amx_conv_q8_task t = amx_conv_q8_task(p, task);
        float *out = (float *)x[3] + strides_at(&f->out, t.image, t.row, t.column);
        const float *add = out;
        if (ADD) add = (const float *)x[4] + strides_at(&f->add, t.image, t.row, t.column);
        for (int64_t block = t.block; block < t.last; block++) {
            const int8_t *weights = (const int8_t *)x[1] + block * p->block_bytes;
            struct amx_conv_q8_place place = {amx_conv_q8_window(p, &t, x[0]), weights, 0, 0};
            amx_conv_q8_clear(&amx, groups, tiles);
            CIRCLET_NO_UNROLL for (int64_t step = 0; step < steps; step++)
                amx_conv_q8_next(&amx, p, &place, groups, tiles, AMX_BF16);
            amx_conv_q8_sums(&amx, p, scratch, groups, tiles);
            const float *biases = (const float *)x[2] + block * columns;
            CIRCLET_NO_UNROLL for (int64_t m = 0; m < p->pixels; m++)
                CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
                    int64_t lane = v * CIRCLET_LANES, at = block * columns + lane;
                    vf acc[1][8];
                    acc[0][v] = v_load(biases + lane) + v_load(sums + m * columns + lane);
                    conv_f32_finish(acc, f, out + m * f->out.pixel + at,
                                    add + m * f->add.pixel + at,
                                    p->channels - at, f->add_channels - at, v, 1, ADD);
                }
        }
    }
    AMX_END();
}

#endif
