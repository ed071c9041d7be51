/* Depthwise convolution over 8-bit activations and weights, 16 channels at a time.
 *
 * Four vertically neighbouring taps of 16 channels are woven into one register set, so that one
 * v_dot4 does four taps of each channel. Neighbouring output pixels share woven columns. Weights
 * of uint8 may need nine bits after their zero point is taken off: they come as a sum of two parts.
 */
#ifndef CIRCLET_DEPTHWISE_Q8_H
#define CIRCLET_DEPTHWISE_Q8_H

#include "hybrid_q8.h"
#include "requantize.h"

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
    int32_t row_pixels;    /* pixels of an output row */
    int32_t channels;      /* channels */
    int32_t zero;          /* output zero point, less 128 for uint8 */
    int32_t out_flip;      /* 128 for uint8 outputs, else 0 */
    int32_t low;           /* least output less the zero point */
    int32_t high;          /* greatest output less the zero point */
    int64_t image_batch;   /* hybrid: elements between float images */
    int64_t image_row;     /* hybrid: elements between rows of a float image */
    int64_t image_pixel;   /* hybrid: elements between pixels of a float image */
    int32_t image_height;  /* hybrid: rows of a float image */
    int32_t image_width;   /* hybrid: pixels of a row of a float image */
    int32_t image_depth;   /* hybrid: channels of a float image */
    int32_t border_top;    /* hybrid: rows above the image in scratch */
    int32_t border_left;   /* hybrid: pixels left of the image in scratch */
    int32_t border_bottom; /* hybrid: rows below the image in scratch */
    int32_t border_right;  /* hybrid: pixels right of the image in scratch */
    int32_t asymmetric;    /* hybrid: whether images get a zero point */
    float float_low;       /* hybrid: least output */
    float float_high;      /* hybrid: greatest output */
};

#define DEPTHWISE_Q8_CHANNELS 16
#define DEPTHWISE_Q8_VECTORS (DEPTHWISE_Q8_CHANNELS / CIRCLET_LANES)

/* Four bytes of each of 16 channels, side by side. */
typedef union {
    CIRCLET_VECTOR(uint8_t, 64) bytes;
    vu8 part[DEPTHWISE_Q8_VECTORS];
} depthwise_q8_woven;

CIRCLET_INLINE depthwise_q8_woven depthwise_q8_weave(v16u8 a, v16u8 b, v16u8 c, v16u8 d) {
    typedef CIRCLET_VECTOR(uint16_t, 32) pairs;
    pairs ab = (pairs)__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                              7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                              14, 30, 15, 31);
    pairs cd = (pairs)__builtin_shufflevector(c, d, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                              7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                              14, 30, 15, 31);
    depthwise_q8_woven woven;
    woven.bytes = (__typeof__(woven.bytes))__builtin_shufflevector(
        ab, cd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11,
        27, 12, 28, 13, 29, 14, 30, 15, 31);
    return woven;
}

/* Taps 4 * group ... of one column of the window; rows that the window lacks repeat the last. */
CIRCLET_INLINE depthwise_q8_woven depthwise_q8_column(const uint8_t *at, int64_t tap_down,
                                                      int group, const int height, const int flip,
                                                      const int narrow) {
    v16u8 rows[4];
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
        int y = 4 * group + i < height ? 4 * group + i : height - 1;
        const uint8_t *p = at + y * tap_down;
        rows[i] = narrow ? v16_load_n(p, narrow) : v16_load(p);
    }
    depthwise_q8_woven woven = depthwise_q8_weave(rows[0], rows[1], rows[2], rows[3]);
    if (flip) woven.bytes ^= 0x80;
    return woven;
}

CIRCLET_INLINE void depthwise_q8_add(vi *acc, const depthwise_q8_woven *data, const int8_t *w,
                                     const int parts) {
    CIRCLET_UNROLL for (int part = 0; part < parts; part++)
        CIRCLET_UNROLL for (int v = 0; v < DEPTHWISE_Q8_VECTORS; v++)
            acc[v] = v_dot4(acc[v], data->part[v],
                            v_load_i8(w + part * 64 + v * CIRCLET_VBYTES));
}

/* Each column of the input is woven once and used by every window that it lies in. */
CIRCLET_INLINE void depthwise_q8_slide(vi *acc, const struct depthwise_q8_params *p,
                                       const uint8_t *in, const int8_t *w, const int pixels,
                                       const int height, const int width, const int stride,
                                       const int parts, const int flip, const int narrow) {
    const int groups = (height + 3) / 4;
    CIRCLET_UNROLL for (int column = 0; column < (pixels - 1) * stride + width; column++)
        CIRCLET_UNROLL for (int group = 0; group < groups; group++) {
            depthwise_q8_woven data = depthwise_q8_column(in + column * p->in_pixel, p->tap_down,
                                                          group, height, flip, narrow);
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
                int tap = column - m * stride;
                if (tap < 0 || tap >= width) continue;
                depthwise_q8_add(acc + m * DEPTHWISE_Q8_VECTORS, &data,
                                 w + (tap * groups + group) * parts * 64, parts);
            }
        }
}

/* Any taps: each window weaves its own columns. */
CIRCLET_INLINE void depthwise_q8_gather(vi *acc, const struct depthwise_q8_params *p,
                                        const uint8_t *in, const int8_t *w, const int pixels,
                                        const int height, const int width, const int stride,
                                        const int parts, const int flip, const int narrow) {
    CIRCLET_NO_UNROLL for (int tap = 0; tap < width; tap++)
        CIRCLET_NO_UNROLL for (int group = 0; group < (height + 3) / 4; group++, w += parts * 64)
            CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
                const uint8_t *at = in + m * stride * p->in_pixel + tap * p->tap_across;
                depthwise_q8_woven data =
                    depthwise_q8_column(at, p->tap_down, group, height, flip, narrow);
                depthwise_q8_add(acc + m * DEPTHWISE_Q8_VECTORS, &data, w, parts);
            }
}

CIRCLET_INLINE void depthwise_q8_store(const vi *acc, const struct depthwise_q8_params *p,
                                       const int32_t *records, void *out, int64_t at, float scale,
                                       const int pixels, const int form, const int narrow) {
    struct q8_bounds bounds = {p->low, p->high, p->zero, (uint8_t)p->out_flip};
    int64_t count = narrow ? narrow : DEPTHWISE_Q8_CHANNELS;
    CIRCLET_UNROLL for (int v = 0; v < DEPTHWISE_Q8_VECTORS; v++) {
        const int32_t *record = records + v * Q8_RECORD;
        int64_t rest = count - v * CIRCLET_LANES;
        if (rest <= 0) continue;
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            vi x = acc[m * DEPTHWISE_Q8_VECTORS + v];
            int64_t to = at + m * p->out_pixel + v * CIRCLET_LANES;
            if (form == Q8_HYBRID)
                q8_store_float((float *)out + to, x, (const float *)record, scale, p->float_low,
                               p->float_high, rest);
            else
                q8_store((uint8_t *)out + to, x, record, bounds, rest, form);
        }
    }
}

/* Quantises one float image into scratch, its border with it. */
CIRCLET_INLINE struct hybrid_scale depthwise_q8_image(const struct depthwise_q8_params *p,
                                                      const float *in, uint8_t *scratch,
                                                      int64_t image) {
    struct hybrid_image geometry = {
        .row = p->image_row,       .pixel = p->image_pixel,     .height = p->image_height,
        .width = p->image_width,   .depth = p->image_depth,     .top = p->border_top,
        .left = p->border_left,    .bottom = p->border_bottom,  .right = p->border_right,
    };
    return hybrid_quantise(&geometry, in + image * p->image_batch, scratch, p->asymmetric);
}

/* Operands: input, packed weights, records, output. A task is an output row.
 *
 * pixels: Neighbouring output pixels done together.
 * height, width: Taps.
 * stride: Between output pixels.
 * slides: Whether windows share columns (taps side by side, and few enough to unroll).
 * parts: Parts of each weight.
 * form: How outputs are scaled (requantize.h).
 * flip: Whether the top bit of each activation changes on its way into v_dot4.
 * narrow: The number of channels where there are fewer than 16, else 0.
 */
CIRCLET_INLINE void depthwise_q8(const struct depthwise_q8_params *p, void *const *x,
                                 void *scratch, int64_t begin, int64_t end, const int pixels,
                                 const int height, const int width, const int stride,
                                 const int slides, const int parts, const int form,
                                 const int flip, const int narrow) {
    const int64_t block_bytes = (int64_t)(height + 3) / 4 * width * parts * 64;
    struct hybrid_scale image_scale = {0.0f, 0};
    int64_t image_ready = -1;
    for (int64_t task = begin; task < end; task++) {
        int64_t image = task / p->image_rows, row = task % p->image_rows;
        const uint8_t *in = (const uint8_t *)x[0] + image * p->in_batch;
        if (form == Q8_HYBRID) {
            if (image != image_ready) image_scale = depthwise_q8_image(p, x[0], scratch, image);
            image_ready = image;
            in = scratch;
        }
        in += row * p->in_row;
        int64_t to = image * p->out_batch + row * p->out_row;
        for (int64_t next = 0; next < p->row_pixels; next += pixels) {
            int64_t column = s_min_i64(next, p->row_pixels - pixels);
            const int8_t *w = x[1];
            const int32_t *records = x[2];
            for (int64_t c = 0; c < p->channels; c += DEPTHWISE_Q8_CHANNELS) {
                int64_t first = narrow ? 0 : s_min_i64(c, p->channels - DEPTHWISE_Q8_CHANNELS);
                const uint8_t *at = in + column * stride * p->in_pixel + first;
                vi acc[32];
                CIRCLET_UNROLL for (int v = 0; v < DEPTHWISE_Q8_VECTORS; v++) {
                    vi bias = q8_bias(records + v * Q8_RECORD, image_scale.zero, form);
                    CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
                        acc[m * DEPTHWISE_Q8_VECTORS + v] = bias;
                }
                if (slides)
                    depthwise_q8_slide(acc, p, at, w, pixels, height, width, stride, parts, flip,
                                       narrow);
                else
                    depthwise_q8_gather(acc, p, at, w, pixels, height, width, stride, parts, flip,
                                        narrow);
                depthwise_q8_store(acc, p, records, x[3], to + column * p->out_pixel + first,
                                   image_scale.scale, pixels, form, narrow);
                w += block_bytes;
                records += DEPTHWISE_Q8_VECTORS * Q8_RECORD;
            }
        }
    }
}

#endif
