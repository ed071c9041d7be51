/* Depthwise convolution over 8-bit activations and weights, a block of channels at a time.
 *
 * Depthwise sums are too short for a dot product along channels. Four vertically neighbouring
 * pixels of a block are interleaved instead, so that one v_dot4 does four taps of each channel:
 *
 *     row 0  a0 a1 a2 ...
 *     row 1  b0 b1 b2 ...   zips of bytes and of   a0 b0 c0 d0 | a1 b1 c1 d1 | a2 b2 c2 d2 | ...
 *     row 2  c0 c1 c2 ...   pairs of bytes: quads  weights stand likewise
 *     row 3  d0 d1 d2 ...
 *
 * Neighbouring output pixels share interleaved columns, and so do two rows of outputs where the
 * taps of both fit four rows: a window of three rows alone wastes a quarter. Weights of uint8 may
 * need nine bits after their zero point is taken off: they come as a sum of two parts. Without dot
 * products, parts are of weights whose products fit 16 bits two by two, where that is mostly one part;
 * other weights are int16, and quads fall into even and odd taps once for all windows. Where no
 * instruction adds products of neighbours (DEPTHWISE_Q8_BY_TAPS) nothing is interleaved: taps follow
 * each other, each a multiply-add of int16 that widens.
 *
 * Channels of the input that have several filters each are repeated as they are loaded.
 */
#ifndef CIRCLET_DEPTHWISE_Q8_H
#define CIRCLET_DEPTHWISE_Q8_H

#include "hybrid_q8.h"
#include "requantize.h"

#define DEPTHWISE_Q8_BY_TAPS (!CIRCLET_HAS_DOT4 && !CIRCLET_HAS_MADD)

struct depthwise_q8_params {
    int64_t in_batch;      /* bytes between images of the input */
    int64_t in_row;        /* bytes between the windows of two output rows */
    int64_t in_pixel;      /* bytes between pixels of the input */
    int64_t tap_down;      /* bytes between two rows of taps */
    int64_t tap_across;    /* bytes between two taps of a row */
    int64_t out_batch;     /* elements between images of the output */
    int64_t out_row;       /* elements between rows of the output */
    int64_t out_pixel;     /* elements between pixels of the output */
    int32_t image_rows;    /* output rows of one image */
    int32_t image_tasks;   /* tasks of one image */
    int32_t row_pixels;    /* pixels of an output row */
    int32_t channels;      /* channels of the output */
    int32_t zero;          /* output zero point, less 128 for uint8 */
    int32_t out_flip;      /* 128 for uint8 outputs, else 0 */
    int32_t low;           /* least output less the zero point */
    int32_t high;          /* greatest output less the zero point */
    float float_low;       /* hybrid: least output */
    float float_high;      /* hybrid: greatest output */
};

/* How one block of channels is done; constants, all of them.
 *
 * channels: 16, 32 or 64, at most a register of bytes.
 * narrow: The number of channels where there are fewer than 16, else 0.
 * pixels, rows: Neighbouring outputs done together.
 * height, width: Taps.
 * stride: Between output pixels.
 * parts: Parts of each weight; 0 for weights of int16.
 * flip: Whether the top bit of each activation changes on its way into v_dot4.
 * multiplier: Filters of each channel of the input, a power of two.
 */
struct depthwise_q8_shape {
    int channels, narrow, pixels, rows, height, width, stride, parts, flip, form, multiplier;
};

/* Bytes of the weights of a channel for four taps. */
CIRCLET_INLINE int depthwise_q8_tap_bytes(const int parts) { return parts ? 4 * parts : 8; }

/* Bytes of the weights of a channel. */
CIRCLET_INLINE int64_t depthwise_q8_weight_bytes(const int height, const int width, const int rows,
                                                 const int parts) {
    if (DEPTHWISE_Q8_BY_TAPS) return (int64_t)height * width * 2;
    return (int64_t)(height + rows + 2) / 4 * width * rows * depthwise_q8_tap_bytes(parts);
}

#if DEPTHWISE_Q8_BY_TAPS
/* Sixteen channels of a pixel as int16. */
CIRCLET_INLINE void depthwise_q8_widen(vi16 *x, const uint8_t *at,
                                       const struct depthwise_q8_shape s) {
#if CIRCLET_DOT_SIGNED
    typedef CIRCLET_VECTOR(int8_t, 8) half;
#else
    typedef CIRCLET_VECTOR(uint8_t, 8) half;
#endif
    union { v16u8 all; half part[2]; } u;
    u.all = v16_load_repeated(at, s.narrow ? s.narrow : 16, s.multiplier);
    if (s.flip) u.all ^= 0x80;
    x[0] = __builtin_convertvector(u.part[0], vi16);
    x[1] = __builtin_convertvector(u.part[1], vi16);
}

/* Adds a tap of sixteen channels to the sums of a pixel. */
CIRCLET_INLINE void depthwise_q8_add_tap(vi *acc, const vi16 *x, const int8_t *w) {
    CIRCLET_UNROLL for (int i = 0; i < 2; i++) {
        vi16 weights = (vi16)v_load_i8(w + i * CIRCLET_VBYTES);
        acc[2 * i] = v_mla_i16(acc[2 * i], x[i], weights, 0);
        acc[2 * i + 1] = v_mla_i16(acc[2 * i + 1], x[i], weights, 1);
    }
}

/* Each pixel of the input is widened once and used by every window that it lies in. */
CIRCLET_INLINE void depthwise_q8_slide(vi *acc, const struct depthwise_q8_params *p,
                                       const uint8_t *in, const int8_t *w, const uint32_t more,
                                       const struct depthwise_q8_shape s) {
    (void)more;
    CIRCLET_UNROLL for (int column = 0; column < (s.pixels - 1) * s.stride + s.width; column++)
        CIRCLET_UNROLL for (int row = 0; row < s.height + s.rows - 1; row++) {
            vi16 x[2];
            depthwise_q8_widen(x, in + column * p->in_pixel + row * p->tap_down, s);
            CIRCLET_UNROLL for (int i = 0; i < s.rows * s.pixels; i++) {
                int down = row - i / s.pixels, across = column - i % s.pixels * s.stride;
                if (down < 0 || down >= s.height || across < 0 || across >= s.width) continue;
                depthwise_q8_add_tap(acc + 4 * i, x, w + (across * s.height + down) * 32);
            }
        }
}

/* Any taps of one row of outputs. */
CIRCLET_INLINE void depthwise_q8_gather(vi *acc, const struct depthwise_q8_params *p,
                                        const uint8_t *in, const int8_t *w, const uint32_t more,
                                        const struct depthwise_q8_shape s) {
    (void)more;
    CIRCLET_NO_UNROLL for (int tap = 0; tap < s.width; tap++)
        CIRCLET_NO_UNROLL for (int row = 0; row < s.height; row++, w += 32)
            CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
                vi16 x[2];
                depthwise_q8_widen(x, in + m * s.stride * p->in_pixel + tap * p->tap_across +
                                          row * p->tap_down, s);
                depthwise_q8_add_tap(acc + 4 * m, x, w);
            }
}
#else
/* Four rows as quads: four bytes of each channel side by side, the channels in the order of
 * q8_store_tile, which is that in which zips within 128 bits leave them. */
CIRCLET_INLINE void depthwise_q8_interleave(vu8 *quads, const uint8_t *const *rows,
                                            const struct depthwise_q8_shape s) {
    const int channels = s.channels, multiplier = s.multiplier;
    if (channels == CIRCLET_VBYTES && !s.narrow) {
        vu8 x[4];
        CIRCLET_UNROLL for (int i = 0; i < 4; i++) x[i] = v_load_repeated_u8(rows[i], multiplier);
        v_quads_u8(quads, x[0], x[1], x[2], x[3]);
        return;
    }
    union { v16u8 part[8]; vu8 whole[128 / CIRCLET_VBYTES]; } u;
    const int pieces = channels / 16;
    CIRCLET_UNROLL for (int i = 0; i < 4 * pieces; i++)
        u.part[i] = v16_load_repeated(rows[i / pieces] + i % pieces * 16 / multiplier,
                                      s.narrow ? s.narrow : 16, multiplier);
#if CIRCLET_VBYTES == 16
    v_quads_u8(quads, u.whole[0], u.whole[1], u.whole[2], u.whole[3]);
#else
#if CIRCLET_VBYTES == 64
#define DEPTHWISE_Q8_PAIRS \
    CIRCLET_ZIP8(0, 32), CIRCLET_ZIP8(8, 32), CIRCLET_ZIP8(16, 32), CIRCLET_ZIP8(24, 32)
#define DEPTHWISE_Q8_FOUR(o) \
    (o), (o) + 16, (o) + 32, (o) + 48, (o) + 1, (o) + 17, (o) + 33, (o) + 49, \
    (o) + 2, (o) + 18, (o) + 34, (o) + 50, (o) + 3, (o) + 19, (o) + 35, (o) + 51
    if (channels == 16) {
        vu8 all = u.whole[0];
        quads[0] = __builtin_shufflevector(all, all, DEPTHWISE_Q8_FOUR(0), DEPTHWISE_Q8_FOUR(4),
                                           DEPTHWISE_Q8_FOUR(8), DEPTHWISE_Q8_FOUR(12));
        return;
    }
#else
#define DEPTHWISE_Q8_PAIRS CIRCLET_ZIP8(0, 16), CIRCLET_ZIP8(8, 16)
#endif
    vu16 ab = (vu16)__builtin_shufflevector(u.whole[0], u.whole[0], DEPTHWISE_Q8_PAIRS);
    vu16 cd = (vu16)__builtin_shufflevector(u.whole[1], u.whole[1], DEPTHWISE_Q8_PAIRS);
    quads[0] = v_zip_low_u16(ab, cd);
    quads[1] = v_zip_high_u16(ab, cd);
#endif
}

/* Four rows of pixels at one column, from row 4 * group on; rows that no window has repeat the
 * last one that one has. Where two products are added in 16 bits, they are of every other row: the
 * middle one of three often has great weights. */
CIRCLET_INLINE void depthwise_q8_column(vu8 *quads, const uint8_t *at, int64_t tap_down,
                                        const int group, const struct depthwise_q8_shape s) {
    const uint8_t *rows[4];
    const int last = s.height + s.rows - 2;
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
        const int row = 4 * group + (CIRCLET_HAS_PAIRS && s.parts ? i % 2 * 2 + i / 2 : i);
        rows[i] = at + (row < last ? row : last) * tap_down;
    }
    depthwise_q8_interleave(quads, rows, s);
    if (s.flip)
        CIRCLET_UNROLL for (int n = 0; n < s.channels / CIRCLET_LANES; n++) quads[n] ^= 0x80;
}

/* acc + the sums over even and over odd bytes, by products of int16. The window's first tap is
 * `first` bytes from the first of the four; those where no tap is are left out. */
CIRCLET_INLINE vi depthwise_q8_add_wide(vi acc, vu8 quads, const int8_t *w, const int first,
                                        const int height) {
    vi16 even = (vi16)quads & 0xff, odd = (vi16)((vu16)quads >> 8);
    const int end = first + height;
    if ((first <= 0 && end > 0) || (first <= 2 && end > 2))
        acc += v_madd_i16(even, (vi16)v_load_i8(w));
    if ((first <= 1 && end > 1) || (first <= 3 && end > 3))
        acc += v_madd_i16(odd, (vi16)v_load_i8(w + CIRCLET_VBYTES));
    return acc;
}

/* acc + the sum over each lane's four bytes. Without a dot product, weights are such that two products
 * fit 16 bits (lower/integers/depthwise_q8.py). */
CIRCLET_INLINE vi depthwise_q8_dot(vi acc, vu8 quads, const int8_t *w) {
#if CIRCLET_HAS_PAIRS
    return v_add_pairs(acc, v_pairs(quads, v_load_i8(w)));
#else
    return v_dot4(acc, quads, v_load_i8(w));
#endif
}

/* Adds an interleaved column to the sums of one pixel of each row; they are `apart` apart. Parts of
 * the weights behind the first are rare: `more` says whether this column has any. */
CIRCLET_INLINE void depthwise_q8_add(vi *acc, const int apart, const vu8 *quads, const int8_t *w,
                                     const int more, const int group,
                                     const struct depthwise_q8_shape s) {
    const int vectors = s.channels / CIRCLET_LANES, outputs = s.rows * vectors;
    CIRCLET_UNROLL for (int i = 0; i < (s.parts ? 0 : outputs); i++) {
        vi *sum = acc + i / vectors * apart + i % vectors;
        *sum = depthwise_q8_add_wide(*sum, quads[i % vectors], w + i * 2 * CIRCLET_VBYTES,
                                     i / vectors - 4 * group, s.height);
    }
    CIRCLET_UNROLL for (int part = 0; part < s.parts; part++) {
        if (part > 0 && !more) break;
        CIRCLET_UNROLL for (int i = 0; i < outputs; i++) {
            int row = i / vectors, n = i % vectors;
            vi *sum = acc + row * apart + n;
            const int8_t *at = w + ((row * s.parts + part) * vectors + n) * CIRCLET_VBYTES;
            *sum = depthwise_q8_dot(*sum, quads[n], at);
        }
    }
}

/* Each column of the input is interleaved once and used by every window that it lies in. */
CIRCLET_INLINE void depthwise_q8_slide(vi *acc, const struct depthwise_q8_params *p,
                                       const uint8_t *in, const int8_t *w, const uint32_t more,
                                       const struct depthwise_q8_shape s) {
    const int groups = (s.height + s.rows + 2) / 4, vectors = s.channels / CIRCLET_LANES;
    CIRCLET_UNROLL for (int column = 0; column < (s.pixels - 1) * s.stride + s.width; column++)
        CIRCLET_UNROLL for (int group = 0; group < groups; group++) {
            vu8 quads[4];
            depthwise_q8_column(quads, in + column * p->in_pixel, p->tap_down, group, s);
            CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
                int tap = column - m * s.stride;
                if (tap < 0 || tap >= s.width) continue;
                int64_t at = (tap * groups + group) * s.rows * s.channels *
                             depthwise_q8_tap_bytes(s.parts);
                depthwise_q8_add(acc + m * vectors, s.pixels * vectors, quads, w + at,
                                 more >> tap & 1, group, s);
            }
        }
}

/* Any taps: each window interleaves its own columns. */
CIRCLET_INLINE void depthwise_q8_gather(vi *acc, const struct depthwise_q8_params *p,
                                        const uint8_t *in, const int8_t *w, const uint32_t more,
                                        const struct depthwise_q8_shape s) {
    const int groups = (s.height + s.rows + 2) / 4, vectors = s.channels / CIRCLET_LANES;
    CIRCLET_NO_UNROLL for (int tap = 0; tap < s.width; tap++)
        CIRCLET_NO_UNROLL for (int group = 0; group < groups; group++) {
            CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
                const uint8_t *at = in + m * s.stride * p->in_pixel + tap * p->tap_across;
                vu8 quads[4];
                depthwise_q8_column(quads, at, p->tap_down, group, s);
                depthwise_q8_add(acc + m * vectors, s.pixels * vectors, quads, w,
                                 more >> (tap < 31 ? tap : 31) & 1, group, s);
            }
            w += s.rows * s.channels * depthwise_q8_tap_bytes(s.parts);
        }
}
#endif

/* Stores one row of pixels as floats, 16 channels or fewer of each. */
CIRCLET_INLINE void depthwise_q8_store_floats(const vi *acc, const struct depthwise_q8_params *p,
                                              const int32_t *qparams, float *to, float scale,
                                              const struct depthwise_q8_shape s) {
    const int vectors = s.channels / CIRCLET_LANES;
    CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
        vf y[4];
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            y[n] = q8_scale_float(acc[m * vectors + n], (const float *)(qparams + n * Q8_QPARAM),
                                  scale, p->float_low, p->float_high);
#if CIRCLET_VBYTES == 32
        vf a = y[0], b = y[1];
        y[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        y[1] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#endif
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            q8_store_float(to + m * p->out_pixel + n * CIRCLET_LANES, y[n],
                           (s.narrow ? s.narrow : 16) - n * CIRCLET_LANES);
    }
}

/* Outputs of the channels first ... last - 1 of `rows` whole rows. */
CIRCLET_INLINE void depthwise_q8_rows(const struct depthwise_q8_params *p, const uint8_t *in,
                                      const int8_t *weights, const int32_t *qparams,
                                      const uint32_t *block_flags, void *out, int64_t to,
                                      int64_t first, int64_t last,
                                      const struct hybrid_scale *image, const int slides,
                                      const struct depthwise_q8_shape s) {
    const int vectors = s.channels / CIRCLET_LANES;
    const int64_t block_bytes =
        s.channels * depthwise_q8_weight_bytes(s.height, s.width, s.rows, s.parts);
    const int stored = s.narrow ? s.narrow : s.channels;
    struct q8_bounds bounds =
        q8_bounds_of(p->low, p->high, p->zero, p->out_flip, s.form);
    for (int64_t next = 0; next < p->row_pixels; next += s.pixels) {
        int64_t column = s_min_i64(next, p->row_pixels - s.pixels);
        const int8_t *w = weights;
        const int32_t *qparam = qparams;
        const uint32_t *flags = block_flags;
        for (int64_t c = first; c < last; c += s.channels) {
            const uint8_t *at = in + column * s.stride * p->in_pixel + c / s.multiplier;
            vi acc[32];
            CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
                const int32_t *start = qparam + n * Q8_QPARAM;
                vi bias = s.form == Q8_HYBRID ? q8_hybrid_bias(start, image->zero)
                                              : v_load_i32(start);
                CIRCLET_UNROLL for (int m = 0; m < s.rows * s.pixels; m++)
                    acc[m * vectors + n] = bias;
            }
            uint32_t more = s.parts > 1 ? *flags++ : 0;
            if (slides) depthwise_q8_slide(acc, p, at, w, more, s);
            else depthwise_q8_gather(acc, p, at, w, more, s);
            if (s.form != Q8_HYBRID)
                q8_scale_tile(acc, qparam, bounds, s.rows * s.pixels, vectors, vectors, s.form);
            CIRCLET_UNROLL for (int r = 0; r < s.rows; r++) {
                int64_t place = to + r * p->out_row + column * p->out_pixel + c;
                const vi *row = acc + r * s.pixels * vectors;
                if (s.form == Q8_HYBRID)
                    depthwise_q8_store_floats(row, p, qparam, (float *)out + place, image->scale,
                                              s);
                else
                    q8_store_tile((uint8_t *)out + place, p->out_pixel, row, bounds, s.pixels,
                                  vectors, vectors, stored);
            }
            w += block_bytes;
            qparam += vectors * Q8_QPARAM;
        }
    }
}

/* Operands: input, packed weights, qparams, output, scales of the images (hybrid), and with several
 * parts, for each block a bit for every column of taps (the last for all from 31 on) where parts
 * behind the first are not zero. A task is `rows` output rows.
 *
 * Blocks of `block` channels are done while they are whole; then one of `rest` channels, where
 * that is not 0, which ends with the last channel.
 *
 * pixels, rest_pixels: Neighbouring output pixels done together, in either kind of block.
 * slides: Whether windows share columns (taps side by side, and few enough to unroll).
 * form: How outputs are scaled (requantize.h).
 * The rest: struct depthwise_q8_shape.
 */
CIRCLET_INLINE void depthwise_q8(const struct depthwise_q8_params *p, void *const *x,
                                 void *scratch, int64_t begin, int64_t end, const int block,
                                 const int pixels, const int rest, const int rest_pixels,
                                 const int rows, const int height, const int width,
                                 const int stride, const int slides, const int parts,
                                 const int form, const int flip, const int narrow,
                                 const int multiplier) {
    const struct depthwise_q8_shape whole = {block, narrow, pixels, rows, height, width, stride,
                                             parts, flip, form, multiplier};
    const struct depthwise_q8_shape last = {rest, narrow, rest_pixels, rows, height, width, stride,
                                            parts, flip, form, multiplier};
    const int64_t weight_bytes = depthwise_q8_weight_bytes(height, width, rows, parts);
    (void)scratch;
    const int64_t blocks = block ? p->channels / block : 0, even = blocks * block;
    const uint32_t *flags = x[5];
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->image_tasks;
        int64_t row = s_min_i64(task % p->image_tasks * rows, p->image_rows - rows);
        const uint8_t *in = (const uint8_t *)x[0] + image * p->in_batch + row * p->in_row;
        const struct hybrid_scale *scale = 0;
        if (form == Q8_HYBRID) scale = (const struct hybrid_scale *)x[4] + image;
        int64_t to = image * p->out_batch + row * p->out_row;
        if (block)
            depthwise_q8_rows(p, in, x[1], x[2], flags, x[3], to, 0, even, scale, slides, whole);
        if (rest)
            depthwise_q8_rows(p, in, (const int8_t *)x[1] + even * weight_bytes,
                              (const int32_t *)x[2] + even / CIRCLET_LANES * Q8_QPARAM,
                              parts > 1 ? flags + blocks : 0, x[3], to,
                              narrow ? 0 : p->channels - rest, p->channels, scale, slides, last);
    }
}

#endif
