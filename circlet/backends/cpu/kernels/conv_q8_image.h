/* What conv_q8.h computes, over images of few channels: lanes are neighbouring pixels.
 *
 * A tile is a register of output pixels of one row by up to sixteen channels, each with sums in a
 * register of its own. Windows that begin up to eight bytes apart lie within two registers of the
 * input, of which one permutation of bytes makes the same four taps of all of them:
 *
 *     a row of the input     t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 ...      windows six bytes apart
 *     word 0 of its taps     t0 t1 t2 t3 | t6 t7 t8 t9 | t12 ...
 *
 * Words are made once for all channels, whose weights are splat by the dot products themselves. What
 * rows of taps have behind their last whole word, bytes of one or of two taps, shares words: a
 * window of 3 x 3 taps and 3 channels has seven words, not nine. No lane lacks a channel, however
 * few there are, and no sum of a window is made twice.
 */
#ifndef CIRCLET_CONV_Q8_IMAGE_H
#define CIRCLET_CONV_Q8_IMAGE_H

#include "requantize.h"
#include "strides.h"

struct conv_q8_image_params {
    struct image_strides in;  /* bytes; of rows and pixels: between windows of outputs */
    struct image_strides out; /* elements */
    int64_t run_down;         /* bytes between two rows of taps */
    int32_t image_rows;       /* output rows of one image */
    int32_t row_pixels;       /* pixels of an output row */
    int32_t row_tiles;        /* tiles of an output row */
    int32_t channels;         /* output channels */
    int32_t weight_zero;      /* times the sum of a window's activations is subtracted */
    int32_t zero;             /* output zero point, less 128 for uint8 */
    int32_t out_flip;         /* 128 for uint8 outputs, else 0 */
    int32_t low;              /* least output less the zero point */
    int32_t high;             /* greatest output less the zero point */
};

#if CIRCLET_VBYTES == 64 && defined(__AVX512VBMI__)
#define CONV_Q8_IMAGE_WORDS 64 /* at most, of a window */

/* apart: Bytes between neighbouring windows.
 * height, length: Rows of taps, and bytes of each.
 * channels: Channels of a block.
 */
struct conv_q8_image_shape {
    int apart, height, length, channels, form, flip, sums;
};

typedef char conv_q8_image_bytes __attribute__((vector_size(64)));

/* The four bytes from `at` on of every window; `count` bytes from there on may be read. */
CIRCLET_INLINE vu8 conv_q8_image_word(const uint8_t *at, int64_t count, const int apart) {
    union { conv_q8_image_bytes whole; char byte[64]; } from;
    CIRCLET_UNROLL for (int i = 0; i < 64; i++) from.byte[i] = (char)(i / 4 * apart + i % 4);
    conv_q8_image_bytes low = (conv_q8_image_bytes)v_load_n_u8(at, count), high = {0};
    if (count > 64) high = (conv_q8_image_bytes)v_load_n_u8(at + 64, count - 64);
#if defined(__clang__)
    return (vu8)__builtin_ia32_vpermi2varqi512(low, from.whole, high);
#else
    return (vu8)__builtin_ia32_vpermt2varqi512_mask(from.whole, low, high, ~0ull);
#endif
}

/* All words of the windows of which the first is at `in`, and their number; `pixels` windows are
 * there. */
CIRCLET_INLINE int conv_q8_image_words(vu8 *words, const uint8_t *in, int64_t run_down,
                                       int64_t pixels, const struct conv_q8_image_shape s) {
    const int tail = s.length % 4, whole = s.length - tail, sharing = tail ? 4 / tail : 1;
    const uint8_t change = s.flip ? 0x80 : 0;
    const int64_t bytes = (pixels - 1) * s.apart + s.length;
    int count = 0;
    vu shared = {0};
    CIRCLET_UNROLL for (int y = 0; y < s.height; y++) {
        const uint8_t *row = in + y * run_down;
        CIRCLET_UNROLL for (int k = 0; k < whole; k += 4)
            words[count++] = conv_q8_image_word(row + k, bytes - k, s.apart) ^ change;
        if (!tail) continue;
        vu taps = (vu)conv_q8_image_word(row + whole, bytes - whole, s.apart);
        shared |= (taps & ((1u << 8 * tail) - 1)) << 8 * tail * (y % sharing);
        if (y % sharing < sharing - 1 && y < s.height - 1) continue;
        words[count++] = (vu8)shared ^ change;
        shared = (vu){0};
    }
    return count;
}

/* Four pixels of four channels in 128 bits, the pixels of a channel side by side, and then the
 * channels of a pixel. */
#define CONV_Q8_IMAGE_TURN(o) \
    (o), (o) + 4, (o) + 8, (o) + 12, (o) + 1, (o) + 5, (o) + 9, (o) + 13, \
    (o) + 2, (o) + 6, (o) + 10, (o) + 14, (o) + 3, (o) + 7, (o) + 11, (o) + 15
CIRCLET_INLINE vi conv_q8_image_quad(const vi *y, struct q8_bounds bounds) {
    vu8 packed = q8_bound(v_saturate_4_i8(y[0], y[1], y[2], y[3]), bounds);
    return (vi)__builtin_shufflevector(packed, packed, CONV_Q8_IMAGE_TURN(0),
                                       CONV_Q8_IMAGE_TURN(16), CONV_Q8_IMAGE_TURN(32),
                                       CONV_Q8_IMAGE_TURN(48));
}

#define CONV_Q8_IMAGE_ZIP(o) \
    (o), (o) + 16, (o) + 1, (o) + 17, (o) + 4, (o) + 20, (o) + 5, (o) + 21, \
    (o) + 8, (o) + 24, (o) + 9, (o) + 25, (o) + 12, (o) + 28, (o) + 13, (o) + 29
CIRCLET_INLINE vl conv_q8_image_low(vi a, vi b) {
    return (vl)__builtin_shufflevector(a, b, CONV_Q8_IMAGE_ZIP(0));
}
CIRCLET_INLINE vl conv_q8_image_high(vi a, vi b) {
    return (vl)__builtin_shufflevector(a, b, CONV_Q8_IMAGE_ZIP(2));
}

/* Stores requantised channels: the first `left` of them, of the first `pixels` pixels. */
CIRCLET_INLINE void conv_q8_image_store(uint8_t *to, int64_t out_pixel, const vi *y,
                                        struct q8_bounds bounds, int64_t pixels, int64_t left,
                                        const int channels) {
    vi quad[4];
    union { vu8 whole; v16u8 part[4]; } out[4];
    CIRCLET_UNROLL for (int i = 0; i < 4; i++)
        quad[i] = 4 * i < channels ? conv_q8_image_quad(y + 4 * i, bounds) : quad[0];
    vl low = conv_q8_image_low(quad[0], quad[1]), low_rest = conv_q8_image_low(quad[2], quad[3]);
    vl high = conv_q8_image_high(quad[0], quad[1]), high_rest = conv_q8_image_high(quad[2], quad[3]);
    if (channels == 8 && out_pixel == 8 && pixels == CIRCLET_LANES) {
        v_store_u8(to, (vu8)__builtin_shufflevector(low, high, 0, 1, 8, 9, 2, 3, 10, 11));
        v_store_u8(to + 64, (vu8)__builtin_shufflevector(low, high, 4, 5, 12, 13, 6, 7, 14, 15));
        return;
    }
    out[0].whole = (vu8)__builtin_shufflevector(low, low_rest, 0, 8, 2, 10, 4, 12, 6, 14);
    out[1].whole = (vu8)__builtin_shufflevector(low, low_rest, 1, 9, 3, 11, 5, 13, 7, 15);
    out[2].whole = (vu8)__builtin_shufflevector(high, high_rest, 0, 8, 2, 10, 4, 12, 6, 14);
    out[3].whole = (vu8)__builtin_shufflevector(high, high_rest, 1, 9, 3, 11, 5, 13, 7, 15);
    if (CIRCLET_LIKELY(pixels == CIRCLET_LANES && left >= channels)) {
        CIRCLET_UNROLL for (int m = 0; m < CIRCLET_LANES; m++)
            v16_store_n(to + m * out_pixel, out[m % 4].part[m / 4], channels);
        return;
    }
    const int64_t bytes = s_min_i64(left, channels);
    CIRCLET_UNROLL for (int m = 0; m < CIRCLET_LANES; m++)
        if (m < pixels) v16_store_ends(to + m * out_pixel, out[m % 4].part[m / 4], bytes);
}

/* All channels of the tile at `in`, of which `pixels` pixels are there. */
CIRCLET_INLINE void conv_q8_image_tile(const struct conv_q8_image_params *p, void *const *x,
                                       const uint8_t *in, uint8_t *out, int64_t pixels,
                                       const struct conv_q8_image_shape s) {
    const struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, s.form);
    const int8_t *w = x[1];
    const int32_t *qparams = x[2];
    vu8 words[CONV_Q8_IMAGE_WORDS];
    const int count = conv_q8_image_words(words, in, p->run_down, pixels, s);
    vi correction = v_zero_i32();
    if (s.sums) {
        CIRCLET_UNROLL for (int k = 0; k < count; k++)
            correction = v_dot4(correction, words[k], v_splat_i8(1));
        correction = correction * p->weight_zero;
    }
    for (int64_t first = 0; first < p->channels; first += s.channels) {
        vi acc[16];
        CIRCLET_UNROLL for (int n = 0; n < s.channels; n++)
            acc[n] = v_load_i32(qparams + n * Q8_QPARAM) - correction;
        CIRCLET_NO_UNROLL for (int k = 0; k < count; k++, w += 4 * s.channels) {
            CIRCLET_UNROLL for (int n = 0; n < s.channels; n++)
                acc[n] = v_dot4(acc[n], words[k], (vi8)v_splat_4u8((const uint8_t *)w + 4 * n));
        }
        q8_scale_tile(acc, qparams, bounds, 1, s.channels, s.channels, s.form);
        conv_q8_image_store(out + first, p->out.pixel, acc, bounds, pixels, p->channels - first,
                            s.channels);
        qparams += s.channels * Q8_QPARAM;
    }
}

/* Operands: input, packed weights, qparams (a register of each channel), output. A task is a tile.
 *
 * flip: Whether top bits of activations change.
 * sums: Whether the zero point of the weights takes off sums of windows.
 * The rest: struct conv_q8_image_shape.
 */
CIRCLET_INLINE void conv_q8_image(const struct conv_q8_image_params *params, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, const int apart,
                                  const int height, const int length, const int channels,
                                  const int form, const int flip, const int sums) {
    const struct conv_q8_image_shape s = {apart, height, length, channels, form, flip, sums};
    const struct conv_q8_image_params own = *params, *p = &own; /* which no store changes */
    const int64_t pixels = s_min_i64(p->row_pixels, CIRCLET_LANES);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t line = task / p->row_tiles, place = task % p->row_tiles;
        const int64_t image = line / p->image_rows, row = line % p->image_rows;
        const int64_t column = s_min_i64(place * CIRCLET_LANES, p->row_pixels - pixels);
        const uint8_t *in = (const uint8_t *)x[0] + strides_at(&p->in, image, row, column);
        uint8_t *out = (uint8_t *)x[3] + strides_at(&p->out, image, row, column);
        if (CIRCLET_LIKELY(pixels == CIRCLET_LANES))
            conv_q8_image_tile(p, x, in, out, CIRCLET_LANES, s);
        else
            conv_q8_image_tile(p, x, in, out, pixels, s);
    }
}
#endif

#endif
