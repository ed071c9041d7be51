/* Depthwise convolution over 8-bit activations and weights, by products of which two are added in
 * 16 bits (pmaddubsw): for AVX2 and SSE, without dot products.
 *
 * A register is four channels of neighbouring output pixels, 128 bits of each. Four taps of a channel
 * stand side by side, a quad: columns of four rows of the window and, of rows that are left over,
 * squares of 2 x 2 taps or four neighbours of one row. Quads of 16 channels and a row of outputs are
 * made once, in scratch, as planes of four channels:
 *
 *     plane  | a0 b0 c0 d0  a1 b1 c1 d1  ...  a3 b3 c3 d3 | the same of the next pixel | ...
 *
 * so that a load from any pixel on is an operand of products. With a stride, columns that are a
 * stride apart are neighbours; each remainder of columns (phase) has planes of its own.
 *
 * Neither operand of the instruction has room for any activation times any weight with a sign. One
 * operand is |w|, at most 128, and the other the activation as int8 with all its bits flipped where
 * w < 0: ~a is -1 - a, so that |w| * ~a is w * a - |w|, and biases make up for -|w|. Two of these are
 * from -32768 to 32512. Weights of uint8 may have nine bits less their zero point: the rest of
 * those beyond 128 is a second part.
 */
#ifndef CIRCLET_DEPTHWISE_PAIRS_Q8_H
#define CIRCLET_DEPTHWISE_PAIRS_Q8_H

#include "requantize.h"

struct depthwise_pairs_q8_params {
    int64_t in_batch;      /* bytes between images of the input */
    int64_t in_row;        /* bytes between the windows of two output rows */
    int64_t in_pixel;      /* bytes between pixels of the input */
    int64_t tap_down;      /* bytes between two rows of taps */
    int64_t out_batch;     /* bytes between images of the output */
    int64_t out_row;       /* bytes between rows of the output */
    int64_t out_pixel;     /* bytes between pixels of the output */
    int32_t image_rows;    /* output rows of one image */
    int32_t image_tasks;   /* tasks of one image */
    int32_t row_pixels;    /* pixels of an output row */
    int32_t channels;      /* channels of the output */
    int32_t zero;          /* output zero point, less 128 for uint8 */
    int32_t out_flip;      /* 128 for uint8 outputs, else 0 */
    int32_t low;           /* least output less the zero point */
    int32_t high;          /* greatest output less the zero point */
};

/* Output pixels of a row whose quads are in scratch at a time. */
#define DEPTHWISE_PAIRS_CHUNK 64
/* Sums of a tile, of all rows. */
#define DEPTHWISE_PAIRS_MOST_SUMS 8
#define DEPTHWISE_PAIRS_PIXELS (CIRCLET_VBYTES / 16)

/* height, width, stride, dilation: Taps, and distances of pixels and of taps in a row.
 * rows: Neighbouring output rows done together.
 * tile, rest: Registers of neighbouring output pixels done together, and at the end of a row.
 * narrow: The number of channels where there are fewer than 16, else 0.
 * multiplier: Filters of each channel of the input, a power of two. */
struct depthwise_pairs_shape {
    int height, width, stride, dilation, rows, tile, rest, narrow, multiplier, form;
};

/* Rows of taps that rows of outputs see together, in groups of four; and the columns of a quad. */
#define DEPTHWISE_PAIRS_HEIGHT(s) ((s).height + (s).rows - 1)
#define DEPTHWISE_PAIRS_GROUPS(s) ((DEPTHWISE_PAIRS_HEIGHT(s) + 3) / 4)

CIRCLET_INLINE int depthwise_pairs_columns(const struct depthwise_pairs_shape s, const int group) {
    const int left = DEPTHWISE_PAIRS_HEIGHT(s) - 4 * group;
    return left == 1 ? 4 : left == 2 ? 2 : 1;
}

/* Pixels of a plane: whole lines. */
CIRCLET_INLINE int depthwise_pairs_pitch(const struct depthwise_pairs_shape s) {
    return (DEPTHWISE_PAIRS_CHUNK + (s.width - 1) * s.dilation / s.stride + 8) / 4 * 4;
}

CIRCLET_INLINE uint8_t *depthwise_pairs_plane(uint8_t *planes,
                                              const struct depthwise_pairs_shape s,
                                              const int group, const int phase) {
    return planes + (group * s.stride + phase) * 4 * depthwise_pairs_pitch(s) * 16;
}

/* Quads of neighbours in a plane: 16 channels of each. Columns are bytes from the first pixel to
 * that of each neighbour and each column of its quad. */
CIRCLET_INLINE void depthwise_pairs_interleave(uint8_t *plane, const uint8_t *in, int64_t tap_down,
                                               const int64_t *columns, const int group,
                                               const struct depthwise_pairs_shape s) {
    union { v16u8 part[DEPTHWISE_PAIRS_PIXELS]; vu8 whole; } u[4];
    const int across = depthwise_pairs_columns(s, group), height = DEPTHWISE_PAIRS_HEIGHT(s);
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
        const int row = 4 * group + i / across;
        const uint8_t *from = in + (row < height ? row : height - 1) * tap_down;
        CIRCLET_UNROLL for (int n = 0; n < DEPTHWISE_PAIRS_PIXELS; n++) {
            const uint8_t *pixel = from + columns[n * across + i % across];
            u[i].part[n] = v16_load_repeated(pixel, s.narrow ? s.narrow : 16, s.multiplier);
        }
    }
    vu16 ab = v_zip_low_u8(u[0].whole, u[1].whole), cd = v_zip_low_u8(u[2].whole, u[3].whole);
    vu16 ab_high = v_zip_high_u8(u[0].whole, u[1].whole);
    vu16 cd_high = v_zip_high_u8(u[2].whole, u[3].whole);
    const int pitch = depthwise_pairs_pitch(s) * 16;
    v_store_u8(plane, v_zip_low_u16(ab, cd));
    v_store_u8(plane + pitch, v_zip_high_u16(ab, cd));
    v_store_u8(plane + 2 * pitch, v_zip_low_u16(ab_high, cd_high));
    v_store_u8(plane + 3 * pitch, v_zip_high_u16(ab_high, cd_high));
}

/* All quads of one phase of columns for `count` output pixels. Columns behind the last one that a
 * window has repeat it. */
CIRCLET_INLINE void depthwise_pairs_phase(uint8_t *plane, const uint8_t *in,
                                          const struct depthwise_pairs_q8_params *p, int64_t count,
                                          const int group, const int phase,
                                          const struct depthwise_pairs_shape s) {
    const int across = depthwise_pairs_columns(s, group), neighbours = DEPTHWISE_PAIRS_PIXELS;
    int furthest = -1;
    CIRCLET_UNROLL for (int tap = 0; tap < s.width; tap += across)
        if (tap * s.dilation % s.stride == phase) furthest = tap * s.dilation / s.stride;
    if (furthest < 0) return;
    const int64_t last = (count - 1) * s.stride + (s.width - 1) * s.dilation;
    const int64_t reach = (neighbours - 1) * s.stride + phase + (across - 1) * s.dilation;
    int64_t columns[4 * DEPTHWISE_PAIRS_PIXELS], at = 0;
    CIRCLET_UNROLL for (int i = 0; i < across * neighbours; i++)
        columns[i] = (i / across * s.stride + phase + i % across * s.dilation) * p->in_pixel;
    CIRCLET_NO_UNROLL for (; at < count + furthest && at * s.stride + reach <= last;
                           at += neighbours) {
        depthwise_pairs_interleave(plane + at * 16, in, p->tap_down, columns, group, s);
        in += neighbours * s.stride * p->in_pixel;
    }
    CIRCLET_NO_UNROLL for (; at < count + furthest; at += neighbours) {
        CIRCLET_UNROLL for (int i = 0; i < across * neighbours; i++) {
            int64_t column = i / across * s.stride + phase + i % across * s.dilation;
            columns[i] = s_min_i64(column, last - at * s.stride) * p->in_pixel;
        }
        depthwise_pairs_interleave(plane + at * 16, in, p->tap_down, columns, group, s);
        in += neighbours * s.stride * p->in_pixel;
    }
}

/* Adds the products of one part of the weights to the sums of a tile, row by row of outputs. For
 * each quad and each row, weights are what flips the activations, and then |w|. Quads that several taps
 * share are loaded for each, not held: registers are for sums. */
CIRCLET_INLINE void depthwise_pairs_add(vi *acc, const uint8_t *planes, const uint8_t *w,
                                        const int tile, const struct depthwise_pairs_shape s) {
    const int groups = DEPTHWISE_PAIRS_GROUPS(s);
    CIRCLET_UNROLL for (int group = 0; group < groups; group++) {
        const int columns = depthwise_pairs_columns(s, group);
        CIRCLET_UNROLL for (int tap = 0; tap < s.width; tap += columns) {
            const int place = tap * s.dilation;
            const uint8_t *from = depthwise_pairs_plane((uint8_t *)planes, s, group,
                                                        place % s.stride) +
                                  place / s.stride * 16;
            __asm__("" : "+r"(from));
            CIRCLET_UNROLL for (int row = 0; row < s.rows; row++) {
                vu8 flips = v_load_u8(w), sizes = v_load_u8(w + CIRCLET_VBYTES);
                w += 2 * CIRCLET_VBYTES;
                CIRCLET_UNROLL for (int m = 0; m < tile; m++) {
                    vi8 data = (vi8)(v_load_u8(from + m * CIRCLET_VBYTES) ^ flips);
                    acc[row * tile + m] = v_add_pairs(acc[row * tile + m], v_pairs(sizes, data));
                }
            }
        }
    }
}

/* What is done at a time: pixels of a task's output rows, of a block of 16 channels. */
struct depthwise_pairs_piece {
    int64_t task, block, from;
    int64_t in, out; /* where the task's rows begin */
};

/* The sizes that all pieces share. */
struct depthwise_pairs_sizes {
    int64_t chunk;      /* pixels of a piece; the last of a row may have fewer */
    int64_t part_bytes; /* bytes of a part of the weights of four channels */
    int parts;
};

CIRCLET_INLINE int64_t depthwise_pairs_channel(const struct depthwise_pairs_q8_params *p,
                                               struct depthwise_pairs_piece at) {
    const int64_t last = s_max_i64(p->channels - 16, 0);
    return s_min_i64(at.block * 16, last);
}

CIRCLET_INLINE struct depthwise_pairs_piece
depthwise_pairs_first(const struct depthwise_pairs_q8_params *p, int64_t task, const int rows) {
    const int64_t image = (uint32_t)task / (uint32_t)p->image_tasks;
    const int64_t within = (uint32_t)task % (uint32_t)p->image_tasks;
    const int64_t row = s_min_i64(within * rows, p->image_rows - rows);
    return (struct depthwise_pairs_piece){task, 0, 0, image * p->in_batch + row * p->in_row,
                                          image * p->out_batch + row * p->out_row};
}

CIRCLET_INLINE struct depthwise_pairs_piece
depthwise_pairs_next(const struct depthwise_pairs_q8_params *p, struct depthwise_pairs_piece at,
                     int64_t chunk, const int rows) {
    at.from += chunk;
    if (at.from < p->row_pixels) return at;
    at.from = 0;
    at.block++;
    return at.block * 16 < p->channels ? at : depthwise_pairs_first(p, at.task + 1, rows);
}

/* Makes the quads of a piece. */
CIRCLET_INLINE void depthwise_pairs_quads(const struct depthwise_pairs_q8_params *p,
                                          const uint8_t *in, uint8_t *planes,
                                          struct depthwise_pairs_piece at, int64_t chunk,
                                          const struct depthwise_pairs_shape s) {
    const int64_t count = s_min_i64(chunk, p->row_pixels - at.from);
    const int groups = DEPTHWISE_PAIRS_GROUPS(s);
    in += at.in + at.from * s.stride * p->in_pixel;
    in += depthwise_pairs_channel(p, at) / s.multiplier;
    CIRCLET_UNROLL for (int group = 0; group < groups; group++)
        CIRCLET_UNROLL for (int phase = 0; phase < s.stride; phase++)
            depthwise_pairs_phase(depthwise_pairs_plane(planes, s, group, phase), in, p, count,
                                  group, phase, s);
}

/* What a block of 16 channels needs. */
struct depthwise_pairs_block {
    const uint8_t *weights;
    const int32_t *qparams;
    uint32_t more;   /* for each four channels a bit: whether there is a second part */
    int first, stop; /* fours of channels that are computed, and stored */
    struct depthwise_pairs_sizes sizes;
};

/* The bytes from 4 * first on; or as many as there are channels. */
CIRCLET_INLINE void depthwise_pairs_store_pixel(uint8_t *to, v16u8 x, const int first,
                                                const int narrow) {
    CIRCLET_VECTOR(uint64_t, 16) halves = (__typeof__(halves))x;
    if (narrow) {
        v16_store_n(to, x, narrow);
    } else if (first == 0) {
        *(v16u8_u *)to = x;
    } else if (first == 3) {
        uint32_t end = (uint32_t)(halves[1] >> 32);
        __builtin_memcpy(to + 12, &end, 4);
    } else {
        uint64_t end = halves[1];
        uint32_t middle = (uint32_t)(halves[0] >> 32);
        if (first == 1) __builtin_memcpy(to + 4, &middle, 4);
        __builtin_memcpy(to + 8, &end, 8);
    }
}

/* Stores a requantised tile, four registers for each sum, but for pixels from `left` on. */
CIRCLET_INLINE void depthwise_pairs_store(const vi *y, const struct depthwise_pairs_q8_params *p,
                                          struct q8_bounds bounds, uint8_t *to, int64_t left,
                                          const int tile, const int first,
                                          const struct depthwise_pairs_shape s) {
    CIRCLET_UNROLL for (int i = 0; i < s.rows * tile; i++) {
        const vi *of = y + i * 4;
        union { vu8 whole; v16u8 part[DEPTHWISE_PAIRS_PIXELS]; } u;
        u.whole = q8_bound(v_saturate_4_i8(of[0], of[1], of[2], of[3]), bounds);
        CIRCLET_UNROLL for (int n = 0; n < DEPTHWISE_PAIRS_PIXELS; n++) {
            const int pixel = i % tile * DEPTHWISE_PAIRS_PIXELS + n;
            if (pixel < left)
                depthwise_pairs_store_pixel(to + i / tile * p->out_row + pixel * p->out_pixel,
                                            u.part[n], first, s.narrow);
        }
    }
}

/* Outputs of a tile, of which only the first `left` pixels are there. */
CIRCLET_INLINE void depthwise_pairs_tile(vi *y, const struct depthwise_pairs_q8_params *p,
                                         const struct depthwise_pairs_block *b,
                                         struct q8_bounds bounds, const uint8_t *planes,
                                         uint8_t *to, int64_t left, const int tile,
                                         const struct depthwise_pairs_shape s) {
    const int sums = s.rows * tile, pitch = depthwise_pairs_pitch(s) * 16;
    CIRCLET_NO_UNROLL for (int four = b->first; four < b->stop; four++) {
        const int32_t *qparam = b->qparams + four * Q8_QPARAM;
        const uint8_t *w = b->weights + four * b->sizes.parts * b->sizes.part_bytes;
        vi acc[DEPTHWISE_PAIRS_MOST_SUMS], bias = v_load_i32(qparam);
        CIRCLET_UNROLL for (int i = 0; i < sums; i++) acc[i] = bias;
        depthwise_pairs_add(acc, planes + four * pitch, w, tile, s);
        if (b->more >> four & 1)
            depthwise_pairs_add(acc, planes + four * pitch, w + b->sizes.part_bytes, tile, s);
        q8_scale_tile(acc, qparam, bounds, sums, 1, 1, s.form);
        CIRCLET_UNROLL for (int i = 0; i < sums; i++) y[i * 4 + four] = acc[i];
    }
    if (!s.narrow && CIRCLET_LIKELY(b->first == 0))
        depthwise_pairs_store(y, p, bounds, to, left, tile, 0, s);
    else
        depthwise_pairs_store(y, p, bounds, to, left, tile, b->first, s);
}

/* Makes the outputs of a piece. */
CIRCLET_INLINE void depthwise_pairs_outputs(const struct depthwise_pairs_q8_params *p, vi *y,
                                            void *const *x, const uint8_t *planes,
                                            struct depthwise_pairs_piece at,
                                            struct depthwise_pairs_sizes sizes,
                                            const struct depthwise_pairs_shape s) {
    const int64_t wide = s.tile * DEPTHWISE_PAIRS_PIXELS, rest = s.rest * DEPTHWISE_PAIRS_PIXELS;
    const int64_t count = s_min_i64(sizes.chunk, p->row_pixels - at.from);
    const int64_t channel = depthwise_pairs_channel(p, at);
    const struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, s.form);
    const struct depthwise_pairs_block b = {
        .weights = (const uint8_t *)x[1] + at.block * 4 * sizes.parts * sizes.part_bytes,
        .qparams = (const int32_t *)x[2] + at.block * 4 * Q8_QPARAM,
        .more = sizes.parts > 1 ? ((const uint32_t *)x[4])[at.block] : 0,
        .first = (int)(at.block * 16 - channel) / 4,
        .stop = s.narrow ? (s.narrow + 3) / 4 : 4,
        .sizes = sizes,
    };
    uint8_t *out = (uint8_t *)x[3] + at.out + at.from * p->out_pixel + channel;
    int64_t pixel = 0;
    CIRCLET_NO_UNROLL for (; s.tile != s.rest && pixel + wide <= count; pixel += wide)
        depthwise_pairs_tile(y, p, &b, bounds, planes + pixel * 16, out + pixel * p->out_pixel,
                             wide, s.tile, s);
    CIRCLET_NO_UNROLL for (; pixel < count; pixel += rest) {
        int64_t first = s_max_i64(s_min_i64(pixel, count - rest), 0);
        depthwise_pairs_tile(y, p, &b, bounds, planes + first * 16, out + first * p->out_pixel,
                             count - first, s.rest, s);
    }
}

/* Operands: input, packed weights, qparams, output, and for each block of 16 channels which fours
 * have a second part of the weights, where `parts` is 2. A task is `rows` output rows. The last block
 * ends with the last channel.
 *
 * Quads of a piece are made before the outputs of the piece before it: loads of bytes that several
 * stores wrote wait until these have left the processor's queue.
 *
 * The rest: struct depthwise_pairs_shape.
 */
CIRCLET_INLINE void depthwise_pairs_q8(const struct depthwise_pairs_q8_params *params,
                                       void *const *x, void *scratch, int64_t begin, int64_t end,
                                       const int height, const int width, const int stride,
                                       const int dilation, const int rows, const int tile,
                                       const int rest, const int parts, const int form,
                                       const int narrow, const int multiplier) {
    const struct depthwise_pairs_shape s = {height, width, stride, dilation, rows,
                                            tile, rest, narrow, multiplier, form};
    const struct depthwise_pairs_q8_params own = *params, *p = &own; /* which no store changes */
    int quads = 0;
    CIRCLET_UNROLL for (int group = 0; group < DEPTHWISE_PAIRS_GROUPS(s); group++)
        quads += (width + depthwise_pairs_columns(s, group) - 1) / depthwise_pairs_columns(s, group);
    const int64_t chunks = (p->row_pixels + DEPTHWISE_PAIRS_CHUNK - 1) / DEPTHWISE_PAIRS_CHUNK;
    const struct depthwise_pairs_sizes sizes = {
        (p->row_pixels + chunks - 1) / chunks, (int64_t)quads * rows * 2 * CIRCLET_VBYTES, parts};
    const int64_t pieces = (end - begin) * ((p->channels + 15) / 16) * chunks;
    uint8_t *const buffers[2] = {
        scratch, depthwise_pairs_plane(scratch, s, DEPTHWISE_PAIRS_GROUPS(s), 0)};
    struct depthwise_pairs_piece next = depthwise_pairs_first(p, begin, rows), now = next;
    vi y[DEPTHWISE_PAIRS_MOST_SUMS * 4] = {{0}};
    CIRCLET_NO_UNROLL for (int64_t piece = 0; piece <= pieces; piece++) {
        if (piece < pieces)
            depthwise_pairs_quads(p, x[0], buffers[piece & 1], next, sizes.chunk, s);
        if (piece > 0)
            depthwise_pairs_outputs(p, y, x, buffers[~piece & 1], now, sizes, s);
        now = next;
        next = depthwise_pairs_next(p, next, sizes.chunk, rows);
    }
}

#endif
