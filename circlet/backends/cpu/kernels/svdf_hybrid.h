/* SVDF over floats with 8-bit feature weights, as EvalHybridSVDF of LiteRT's svdf.h: an input is
 * quantised by its own range before it meets them; what is remembered, and its weights, are floats.
 *
 * Operands: input, packed feature weights, their records, time weights, biases, state, output.
 */
#ifndef CIRCLET_SVDF_HYBRID_H
#define CIRCLET_SVDF_HYBRID_H

#include "matvec_hybrid.h"
#include "svdf.h"

struct svdf_hybrid_params {
    struct svdf_f32_params floats;
    int64_t quantised; /* where the quantised input starts in scratch memory, in bytes */
    int32_t asymmetric;
};

CIRCLET_INLINE void svdf_hybrid(const struct svdf_hybrid_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int vectors) {
    const struct svdf_sizes *s = &p->floats.size;
    const int64_t slots = s->blocks * vectors * CIRCLET_LANES;
    float *newest = scratch;
    uint8_t *room = (uint8_t *)scratch + p->quantised;
    for (int64_t batch = begin; batch < end; batch++) {
        const float *in = (const float *)x[0] + batch * s->inputs;
        float *state = (float *)x[5] + batch * s->filters * s->memory;
        float *out = (float *)x[6] + batch * s->units;
        for (int64_t i = 0; i < slots; i += CIRCLET_LANES) v_store(newest + i, v_zero());
        matvec_hybrid(x[1], x[2], in, s->inputs, room, newest, newest, s->blocks, p->asymmetric,
                      vectors);
        svdf_f32_remember(&p->floats, newest, x[3], x[4], state, out);
    }
}

#endif
