/* Products of a packed matrix with one vector, for operators that take one step after the other.
 *
 * A block is `vectors` registers of outputs; all lanes of a block are written, those beyond the
 * matrix too.
 */
#ifndef CIRCLET_MATVEC_H
#define CIRCLET_MATVEC_H

#include "requantize.h"

CIRCLET_INLINE const float *matvec_f32_run(vf *acc, const float *x, int64_t n, const float *w,
                                           const int vectors) {
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k++, w += vectors * CIRCLET_LANES) {
        vf value = v_splat(x[k]);
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++)
            acc[v] = v_fma(value, v_load(w + v * CIRCLET_LANES), acc[v]);
    }
    return w;
}

/* Per block of `w`: a row of biases, then one for each element of `a` and of `b`. */
CIRCLET_INLINE void matvec_f32(const float *w, const float *a, int64_t na, const float *b,
                               int64_t nb, float *out, int64_t blocks, const int vectors) {
    for (int64_t block = 0; block < blocks; block++, out += vectors * CIRCLET_LANES) {
        vf acc[8];
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_load(w + v * CIRCLET_LANES);
        w = matvec_f32_run(acc, a, na, w + vectors * CIRCLET_LANES, vectors);
        w = matvec_f32_run(acc, b, nb, w, vectors);
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) v_store(out + v * CIRCLET_LANES, acc[v]);
    }
}

/* What is done with sums: scaled as Q8_FIXED or Q8_GENERAL says, plus `zero`, clamped. */
struct matvec_bounds {
    int32_t zero, low, high;
};

CIRCLET_INLINE vi matvec_scale(vi x, const int32_t *qparam, const int form) {
    if (form == Q8_FIXED) return q8_scale_fixed(x, qparam);
    return v_scale_twice(x, v_load_i32(qparam + CIRCLET_LANES),
                         v_load_i32(qparam + 2 * CIRCLET_LANES),
                         v_load_i32(qparam + 3 * CIRCLET_LANES));
}

/* Bytes between vectors, and elements between their results. */
struct matvec_pitch {
    int64_t x, out;
};

/* `x` is `words` times four bytes as v_dot4 wants them, of each of `columns` vectors; with `add`,
 * results join those in `out`. */
CIRCLET_INLINE void matvec_q8_columns(const int8_t *w, const uint8_t *x, int64_t words,
                                      const int32_t *qparams, int32_t *out, int64_t blocks,
                                      struct matvec_pitch pitch, struct matvec_bounds bounds,
                                      const int form, const int add, const int vectors,
                                      const int columns) {
    vi low = v_splat_i32(bounds.low), high = v_splat_i32(bounds.high);
    for (int64_t block = 0; block < blocks; block++) {
        vi acc[24];
        CIRCLET_UNROLL for (int i = 0; i < columns * vectors; i++)
            acc[i] = v_load_i32(qparams + i % vectors * Q8_QPARAM);
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < words; k++, w += vectors * CIRCLET_VBYTES) {
            vu8 data[24];
            CIRCLET_UNROLL for (int c = 0; c < columns; c++)
                data[c] = v_splat_4u8(x + c * pitch.x + 4 * k);
            CIRCLET_UNROLL for (int i = 0; i < vectors * columns; i++) {
                const int v = i / columns, c = i % columns;
                vi *sum = acc + c * vectors + v;
                *sum = v_dot4(*sum, data[c], v_load_i8(w + v * CIRCLET_VBYTES));
            }
        }
        CIRCLET_UNROLL for (int v = 0; v < vectors; v++) {
            CIRCLET_UNROLL for (int c = 0; c < columns; c++) {
                vi y = matvec_scale(acc[c * vectors + v], qparams, form) + bounds.zero;
                if (add) y = y + v_load_i32(out + c * pitch.out);
                v_store_i32(out + c * pitch.out, v_clamp_i32(y, low, high));
            }
            qparams += Q8_QPARAM, out += CIRCLET_LANES;
        }
    }
}

/* The same of one vector. */
CIRCLET_INLINE void matvec_q8(const int8_t *w, const uint8_t *x, int64_t words,
                              const int32_t *qparams, int32_t *out, int64_t blocks,
                              struct matvec_bounds bounds, const int form, const int add,
                              const int vectors) {
    const struct matvec_pitch none = {0, 0};
    matvec_q8_columns(w, x, words, qparams, out, blocks, none, bounds, form, add, vectors, 1);
}

/* Bytes as v_dot4 wants them; up to 15 behind them are written, which are 0 but for the flip. */
CIRCLET_INLINE void matvec_words(uint8_t *to, const int8_t *from, int64_t n) {
    const uint8_t flip = CIRCLET_DOT_SIGNED ? 0 : 128, *bytes = (const uint8_t *)from;
    int64_t i = 0;
    for (; i + CIRCLET_VBYTES <= n; i += CIRCLET_VBYTES)
        v_store_u8(to + i, v_load_u8(bytes + i) ^ flip);
    CIRCLET_NO_UNROLL for (; i < n; i += 16)
        *(v16u8_u *)(to + i) = v16_load_n(bytes + i, n - i) ^ flip;
}

#endif
