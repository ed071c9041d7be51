/* Convolution over 8-bit activations and weights in groups of few channels, each of as many
 * filters: 4 or 8, and fewer than a register has lanes.
 *
 * A register of neighbouring channels holds several groups. The bytes of an input pixel are
 * shuffled so that each lane has those of its own group, as many at a time as one product adds:
 * four (VPDPBUSD), or two of 16 bits (VPMADDWD). No product is with a zero:
 *
 *     pixel           a0 a1 a2 a3 a4 a5 a6 a7 b0 b1 b2 b3 b4 b5 b6 b7
 *     first products  a0 a1 a2 a3 in the lanes of filters a, b0 b1 b2 b3 in those of filters b
 *     second          a4 a5 a6 a7                            b4 b5 b6 b7
 *
 * A tile is some neighbouring pixels of an output row by one register of channels; a column of the
 * input is shuffled once for all pixels of the tile whose windows it is in. A task is an output
 * row.
 *
 * Operands: input, weights per register of channels [row of taps, product, column of taps, lanes,
 * bytes or int16 of a product], qparams, output. The last register overlaps the one before.
 */
#ifndef CIRCLET_CONV_GROUPS_Q8_H
#define CIRCLET_CONV_GROUPS_Q8_H

#include "requantize.h"
#include "strides.h"

struct conv_groups_q8_params {
    struct image_strides in; /* of rows and pixels: between windows of outputs */
    struct image_strides out;
    int64_t tap_row;    /* input elements between rows of taps */
    int64_t tap_column; /* and between columns */
    int32_t image_rows; /* output rows of an image */
    int32_t row_pixels; /* output pixels of a row, at least `pixels` */
    int32_t tap_rows;
    int32_t channels;   /* at least CIRCLET_LANES */
    int32_t zero;       /* output zero point, less 128 for uint8 */
    int32_t out_flip;   /* 128 for uint8 outputs, else 0 */
    int32_t low;        /* least output less the zero point */
    int32_t high;       /* greatest output less the zero point */
};

/* As many bytes as a register has lanes, in every 128 bits. */
CIRCLET_INLINE vu8 conv_groups_q8_load(const uint8_t *p) {
#if CIRCLET_VBYTES == 64
    typedef CIRCLET_VECTOR(int64_t, 16) two;
    two x = (two)v16_load(p);
    return (vu8)__builtin_shufflevector(x, x, 0, 1, 0, 1, 0, 1, 0, 1);
#else
    int64_t x;
    __builtin_memcpy(&x, p, 8);
    return (vu8)((vl){0} + x);
#endif
}

/* Where in 128 bits each lane finds its `taps` bytes number `step`; those of two with zeros. */
CIRCLET_INLINE vi conv_groups_q8_places(const int depth, const int taps, const int step) {
    const vi first = (v_iota() & -depth) + taps * step;
    if (taps == 4) return first * 0x01010101 + 0x03020100;
    return (vi)((vu)(first * 0x00010001) + 0x80018000u);
}

CIRCLET_INLINE void conv_groups_q8_tile(vi *acc, const struct conv_groups_q8_params *p,
                                        const uint8_t *in, const int8_t *w, const int pixels,
                                        const int depth, const int columns, const int stride,
                                        const int taps, const int flip) {
    for (int row = 0; row < p->tap_rows; row++, in += p->tap_row)
        CIRCLET_UNROLL for (int step = 0; step < depth / taps; step++) {
            const vi places = conv_groups_q8_places(depth, taps, step);
            CIRCLET_UNROLL for (int i = 0; i < (pixels - 1) * stride + columns; i++) {
                vu8 x = conv_groups_q8_load(in + i * p->tap_column);
                if (flip) x ^= 0x80;
                x = v_shuffle_u8(x, (vu8)places);
                CIRCLET_UNROLL for (int tap = 0; tap < columns; tap++) {
                    const int place = i - tap;
                    if (place < 0 || place % stride || place / stride >= pixels) continue;
                    vi *sum = &acc[place / stride];
                    vi8 weights = v_load_i8(w + tap * CIRCLET_VBYTES);
                    *sum = taps == 4 ? v_dot4(*sum, x, weights)
                                     : v_dot2(*sum, (vi16)x, (vi16)weights);
                }
            }
            w += columns * CIRCLET_VBYTES;
        }
}

/* pixels: Of a tile.
 * depth: Channels of a group.
 * columns, stride: Of taps, and of windows.
 * taps: That a product adds.
 * form: How outputs are scaled (requantize.h).
 * flip: Whether top bits of activations change.
 */
CIRCLET_INLINE void conv_groups_q8(const struct conv_groups_q8_params *params, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, const int pixels,
                                   const int depth, const int columns, const int stride,
                                   const int taps, const int form, const int flip) {
    (void)scratch;
    const struct conv_groups_q8_params own = *params, *p = &own; /* which no store changes */
    const struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, form);
    const int64_t block = (int64_t)p->tap_rows * columns * (depth / taps) * CIRCLET_VBYTES;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / p->image_rows, row = task % p->image_rows;
        const uint8_t *in = (const uint8_t *)x[0] + strides_at(&p->in, image, row, 0);
        uint8_t *out = (uint8_t *)x[3] + strides_at(&p->out, image, row, 0);
        const int8_t *w = x[1];
        const int32_t *qparams = x[2];
        for (int64_t next = 0; next < p->channels; next += CIRCLET_LANES) {
            const int64_t channel = s_min_i64(next, p->channels - CIRCLET_LANES);
            for (int64_t column = 0; column < p->row_pixels; column += pixels) {
                const int64_t pixel = s_min_i64(column, p->row_pixels - pixels);
                vi acc[16];
                CIRCLET_UNROLL for (int m = 0; m < pixels; m++) acc[m] = v_load_i32(qparams);
                conv_groups_q8_tile(acc, p, in + pixel * p->in.pixel + channel, w, pixels, depth,
                                    columns, stride, taps, flip);
                q8_finish_tile(out + pixel * p->out.pixel + channel, p->out.pixel, acc, qparams,
                               bounds, CIRCLET_LANES, pixels, 1, form, 0);
            }
            w += block;
            qparams += Q8_QPARAM;
        }
    }
}

#endif
