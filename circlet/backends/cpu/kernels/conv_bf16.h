/* conv_f32.h over operands rounded to bfloat16, with sums in float32.
 *
 * Operands: input as cast_bf16.h makes it, packed weights, output, addend (or null); the latter two
 * are floats. Weights are packed as for conv_f32.h, but that a row holds two elements of each
 * channel: those of two neighbours in a run of the window, the second zero behind an odd run.
 */
#ifndef CIRCLET_CONV_BF16_H
#define CIRCLET_CONV_BF16_H

#include "bf16.h"
#include "conv_f32.h"

struct conv_bf16_params {
    struct conv_f32_params conv;
};

typedef int32_t __attribute__((aligned(2), may_alias)) conv_bf16_word;

/* Two elements of each pixel, or with LAST the only one that is left. */
CIRCLET_INLINE void conv_bf16_pair(vf (*acc)[8], const uint16_t *const *base, int64_t step, int u,
                                   const float *w, const int MR, const int NV, const int LAST) {
    CIRCLET_UNROLL for (int phase = 0; phase < BF16_PHASES; phase++) {
        vi weight[8];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            weight[v] = v_bf16_part((vi)v_load(w + (u * NV + v) * CIRCLET_LANES), phase);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            const uint16_t *x = &base[m / 3][m % 3 * step + 2 * u];
            vi pair = v_bf16_part(v_splat_i32(LAST ? (int32_t)*x : *(const conv_bf16_word *)x),
                                  phase);
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                acc[m][v] = v_bf16_dot(acc[m][v], pair, weight[v], phase);
        }
    }
}

/* One run; see conv_f32_run. */
CIRCLET_INLINE const float *conv_bf16_run(vf (*acc)[8], const uint16_t *a, int64_t step,
                                          int64_t run, const float *w, const int MR,
                                          const int NV) {
    const uint16_t *base[6];
    CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] = a + 3 * j * step;
    int64_t k = run;
    CIRCLET_NO_UNROLL for (; k >= 8; k -= 8) {
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) __asm__("" : "+r"(base[j]));
        CIRCLET_UNROLL for (int u = 0; u < 4; u++) conv_bf16_pair(acc, base, step, u, w, MR, NV, 0);
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] += 8;
        w += 4 * NV * CIRCLET_LANES;
    }
    CIRCLET_NO_UNROLL for (; k >= 2; k -= 2) {
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) __asm__("" : "+r"(base[j]));
        conv_bf16_pair(acc, base, step, 0, w, MR, NV, 0);
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] += 2;
        w += NV * CIRCLET_LANES;
    }
    if (!k) return w;
    conv_bf16_pair(acc, base, step, 0, w, MR, NV, 1);
    return w + NV * CIRCLET_LANES;
}

/* `depth` rows of NV vectors, as pack_f32 packs them, to rows of pairs in their place. */
CIRCLET_INLINE void conv_bf16_pairs(float *rows, int64_t depth, const int NV) {
    const int width = NV * CIRCLET_LANES;
    const float *from = rows;
    for (int64_t k = 0; k < depth; k += 2, from += 2 * width, rows += width)
        CIRCLET_UNROLL for (int n = 0; n < width; n += CIRCLET_LANES) {
            vi even = v_to_bf16(v_load(from + n)), odd = v_zero_i32();
            if (k + 1 < depth) odd = v_to_bf16(v_load(from + width + n));
            v_store_i32((int32_t *)(rows + n), even | odd << 16);
        }
}

CIRCLET_INLINE void conv_bf16_tile(const struct conv_f32_params *p, const uint16_t *a,
                                   const float *w, float *out, const float *add, int64_t left,
                                   int64_t added, const int MR, const int NV, const int ADD) {
    vf acc[16][8];
    conv_f32_start(acc, w, MR, NV);
    w += NV * CIRCLET_LANES;
    for (int64_t y = 0; y < p->tap_rows; y++)
        for (int64_t x = 0; x < p->tap_runs; x++)
            w = conv_bf16_run(acc, a + y * p->tap_row + x * p->tap_run, p->in.pixel, p->run, w, MR,
                              NV);
    conv_f32_end(acc, p, out, add, left, added, MR, NV, 0, ADD);
}

CIRCLET_INLINE void conv_bf16_block(const struct conv_f32_params *p, void *const *operands,
                                    const struct conv_f32_span *span, uint32_t block,
                                    const int MR, const int NV, const int ADD) {
    struct conv_f32_task t = conv_f32_task(p, span, block, NV * CIRCLET_LANES);
    int64_t taps = p->tap_rows * p->tap_runs * ((p->run + 1) / 2);
    const float *add = ADD ? operands[3] : operands[2];
    const float *w = (const float *)operands[1] + block * (taps + 1) * NV * CIRCLET_LANES;
    for (; t.tile < t.stop; conv_f32_next(p, &t)) {
        struct conv_f32_place at = conv_f32_place(p, &t, MR);
        conv_bf16_tile(p, (const uint16_t *)operands[0] + at.in, w,
                       (float *)operands[2] + at.out, add + at.add, t.left,
                       p->add_channels - t.channel, MR, NV, ADD);
    }
}

CIRCLET_INLINE void conv_bf16(const struct conv_bf16_params *params, void *const *operands,
                              void *scratch, int64_t begin, int64_t end, const int MR,
                              const int NV, const int ADD) {
    const struct conv_f32_params *p = &params->conv;
    (void)scratch;
    for (int64_t task = begin; task < end;) {
        struct conv_f32_span span = conv_f32_span(p, task, end);
        for (uint32_t block = span.block; block < span.last; block++)
            conv_bf16_block(p, operands, &span, block, MR, NV, ADD);
        task += span.tasks;
    }
}

#endif
