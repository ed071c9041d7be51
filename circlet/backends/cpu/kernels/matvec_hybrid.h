/* Products of a packed 8-bit matrix with one float vector, which is quantised by its own range
 * before it meets the weights, as LiteRT's hybrid kernels do it.
 *
 * sum((x - zero) * w) = sum(x * w) - zero * sum(w): records hold, for each register of outputs, the
 * weights' scales and sums, and the difference is taken once per output and exactly, in integers.
 */
#ifndef CIRCLET_MATVEC_HYBRID_H
#define CIRCLET_MATVEC_HYBRID_H

#include "hybrid_q8.h"

#define MATVEC_HYBRID_RECORD (2 * CIRCLET_LANES)

/* out = from + the product of a vector with a packed matrix; `room` is for the
 * quantised vector; the dot product takes four elements at a time, so zeros follow it. */
CIRCLET_INLINE void matvec_hybrid(const int8_t *w, const float *records, const float *x, int64_t n,
                                  uint8_t *room, const float *from, float *out, int64_t blocks,
                                  int asymmetric, const int vectors) {
    const struct hybrid_image_params row = {.in.pixel = n, .height = 1, .width = 1, .depth = n};
    struct hybrid_scale scale = hybrid_quantise(&row, x, room, asymmetric);
    CIRCLET_NO_UNROLL for (int64_t i = n; i & 3; i++) room[i] = 0;
    for (int64_t block = 0; block < blocks; block++) {
        vi acc[8];
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_zero_i32();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 4, w += vectors * CIRCLET_VBYTES) {
            vu8 data = v_splat_4u8(room + k);
            CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
                acc[v] = v_dot4(acc[v], data, v_load_i8(w + v * CIRCLET_VBYTES));
        }
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
            vi sums = v_load_i32((const int32_t *)records + CIRCLET_LANES);
            vf total = v_to_f32(acc[v] - sums * scale.zero);
            vf factor = v_load(records) * v_splat(scale.scale);
            v_store(out, v_fma(total, factor, v_load(from)));
            records += MATVEC_HYBRID_RECORD, out += CIRCLET_LANES, from += CIRCLET_LANES;
        }
    }
}

#endif
