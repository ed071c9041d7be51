/* Depthwise convolution in float32: each channel with its own window.
 *
 * A tile is MR output pixels of one row of one vector of channels. The last tile of a row and the
 * last vector of channels overlap the ones before; only fewer channels than lanes are masked.
 * Every output is one chain of multiply-adds over rows and columns of the window in that order.
 * Where windows of neighbouring rows lie a row apart, two rows are computed together.
 *
 * Channels of the input that have several filters each are repeated as they are loaded.
 *
 * Rows go vector by vector of channels, with weights in registers, or tile by tile (ACROSS), with
 * several vectors of each: those touch whole lines of large images, in the order of memory.
 *
 * Operands: input, packed weights, output. Weights are packed per vector of channels: the bias,
 * then one vector per tap.
 */
#ifndef CIRCLET_DEPTHWISE_F32_H
#define CIRCLET_DEPTHWISE_F32_H

#include "simd.h"
#include "strides.h"

struct depthwise_f32_params {
    struct image_strides in; /* from the inputs of output pixels to those of the next */
    struct image_strides out;
    int64_t tap_row;    /* input elements between rows of the window */
    int64_t tap_column; /* input elements between columns of the window */
    int64_t column;     /* input elements between neighbouring loads that pixels share */
    int32_t tap_rows;   /* rows of the window */
    int32_t tap_columns;    /* columns of the window */
    int32_t width;      /* output pixels of a row, at least MR */
    int32_t height;     /* output rows of an image */
    int32_t channels;   /* channels of an output pixel */
    int32_t blocks;     /* vectors of channels */
    int32_t task_blocks;    /* vectors of a task */
    float low;          /* smallest result */
    float high;         /* largest result */
};

/* Rows of a vector of channels that follow each other, so that windows meet their input again. */
#define DEPTHWISE_F32_ROWS 8

/* Vectors of channels of a tile that follow each other with ACROSS: more bytes leave less of the
 * first-level cache to the rows of a window. */
#define DEPTHWISE_F32_TOGETHER (512 / CIRCLET_VBYTES)

/* Tap vectors that stay in registers beside the sums of a tile. */
#if CIRCLET_VBYTES == 64 || defined(__aarch64__)
#define CIRCLET_HELD_TAPS 25
#else
#define CIRCLET_HELD_TAPS 9
#endif

/* Whether taps and the sums of two rows fit 32 registers, with some to load ahead. */
#define DEPTHWISE_F32_CAN_PAIR(s) \
    (CIRCLET_HELD_TAPS == 25 && (s).step != 0 && (s).height * (s).width <= 9 && (s).pixels <= 5)

/* What a kernel is made for; constants, all of them.
 *
 * height, width: The window, or 0 where its size is only known at run time.
 * step, dilation: Distances of pixels and of taps in shared columns; a step of 0 where pixels share
 * none.
 * pixels: Output pixels of a tile.
 * multiplier: Filters of each channel of the input, a power of two.
 * masked: Whether there are fewer channels than lanes.
 */
struct depthwise_f32_shape {
    int height, width, step, dilation, pixels, multiplier, masked;
};

/* The input at `in`, each channel for all of its filters. */
CIRCLET_INLINE vf depthwise_f32_load(const struct depthwise_f32_params *p, const float *in,
                                     const struct depthwise_f32_shape s) {
    if (s.masked) return v_repeat(v_load_n(in, p->channels / s.multiplier), s.multiplier);
    return v_load_repeated(in, s.multiplier);
}

/* One window row where neighbouring pixels share columns: each column is loaded once. */
CIRCLET_INLINE void depthwise_f32_shared(vf *acc, const struct depthwise_f32_params *p,
                                         const float *in, const vf *taps,
                                         const struct depthwise_f32_shape s) {
    const int columns = (s.pixels - 1) * s.step + (s.width - 1) * s.dilation + 1;
    CIRCLET_UNROLL for (int column = 0; column < columns; column++) {
        vf x = depthwise_f32_load(p, in + column * p->column, s);
        CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
            int offset = column - m * s.step;
            if (offset >= 0 && offset % s.dilation == 0 && offset / s.dilation < s.width)
                acc[m] = v_fma(x, taps[offset / s.dilation], acc[m]);
        }
    }
}

CIRCLET_INLINE void depthwise_f32_tap(vf *acc, const struct depthwise_f32_params *p,
                                      const float *in, vf tap,
                                      const struct depthwise_f32_shape s) {
    CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++)
        acc[m] = v_fma(depthwise_f32_load(p, in + m * p->in.pixel, s), tap, acc[m]);
}

/* Sums of a tile. Taps are in registers (`held`) or, where that is null, in memory. */
CIRCLET_INLINE void depthwise_f32_sums(vf *acc, const struct depthwise_f32_params *p,
                                       const float *in, const float *w, const vf *held,
                                       const struct depthwise_f32_shape s) {
    if (s.height == 0) {
        for (int y = 0; y < p->tap_rows; y++)
            for (int x = 0; x < p->tap_columns; x++, w += CIRCLET_LANES)
                depthwise_f32_tap(acc, p, in + y * p->tap_row + x * p->tap_column, v_load(w), s);
        return;
    }
    CIRCLET_UNROLL for (int y = 0; y < s.height; y++) {
        vf loaded[16];
        const vf *taps = held + y * s.width;
        if (!held) {
            CIRCLET_UNROLL for (int x = 0; x < s.width; x++)
                loaded[x] = v_load(w + (y * s.width + x) * CIRCLET_LANES);
            taps = loaded;
        }
        const float *row = in + y * p->tap_row;
        if (s.step) {
            depthwise_f32_shared(acc, p, row, taps, s);
        } else {
            CIRCLET_UNROLL for (int x = 0; x < s.width; x++)
                depthwise_f32_tap(acc, p, row + x * p->tap_column, taps[x], s);
        }
    }
}

/* Sums of the tiles of two rows, of which the second starts a row of the window below the first:
 * what windows share is loaded once, and twice as many chains hide the latency of multiply-adds. */
CIRCLET_INLINE void depthwise_f32_pair(vf *upper, vf *lower, const struct depthwise_f32_params *p,
                                       const float *in, const vf *taps,
                                       const struct depthwise_f32_shape s) {
    const int columns = (s.pixels - 1) * s.step + (s.width - 1) * s.dilation + 1;
    CIRCLET_UNROLL for (int y = 0; y <= s.height; y++) {
        const float *row = in + y * p->tap_row;
        CIRCLET_UNROLL for (int column = 0; column < columns; column++) {
            vf x = depthwise_f32_load(p, row + column * p->column, s);
            CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
                int offset = column - m * s.step, tap = offset / s.dilation;
                if (offset < 0 || offset % s.dilation != 0 || tap >= s.width) continue;
                if (y < s.height) upper[m] = v_fma(x, taps[y * s.width + tap], upper[m]);
                if (y > 0) lower[m] = v_fma(x, taps[(y - 1) * s.width + tap], lower[m]);
            }
        }
    }
}

CIRCLET_INLINE void depthwise_f32_store(const struct depthwise_f32_params *p, float *to,
                                        const vf *acc, const struct depthwise_f32_shape s) {
    vf low = v_splat(p->low), high = v_splat(p->high);
    CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) {
        vf y = v_clamp(acc[m], low, high);
        if (s.masked)
            v_store_n(to + m * p->out.pixel, y, p->channels);
        else
            v_store(to + m * p->out.pixel, y);
    }
}

/* One output row of one vector of channels, or two in pairs. */
CIRCLET_INLINE void depthwise_f32_row(const struct depthwise_f32_params *p, const float *in,
                                      const float *w, const vf *held, float *out,
                                      const struct depthwise_f32_shape s, const int paired) {
    vf bias = v_load(w);
    for (int64_t tile = 0; tile < p->width; tile += s.pixels) {
        int64_t x = s_min_i64(tile, p->width - s.pixels);
        vf acc[8], below[8];
        CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) acc[m] = below[m] = bias;
        if (paired)
            depthwise_f32_pair(acc, below, p, in + x * p->in.pixel, held, s);
        else
            depthwise_f32_sums(acc, p, in + x * p->in.pixel, w + CIRCLET_LANES,
                               s.height * s.width <= CIRCLET_HELD_TAPS ? held : 0, s);
        depthwise_f32_store(p, out + x * p->out.pixel, acc, s);
        if (paired) depthwise_f32_store(p, out + p->out.row + x * p->out.pixel, below, s);
    }
}

/* The rows from `first` to `last` of one vector of channels. */
CIRCLET_INLINE void depthwise_f32_block(const struct depthwise_f32_params *p, const float *in,
                                        const float *w, float *out, int64_t first, int64_t last,
                                        const struct depthwise_f32_shape s) {
    const int can_pair = DEPTHWISE_F32_CAN_PAIR(s), taps = s.height * s.width;
    vf held[CIRCLET_HELD_TAPS];
    if (taps <= CIRCLET_HELD_TAPS)
        CIRCLET_UNROLL for (int tap = 0; tap < taps; tap++)
            held[tap] = v_load(w + (tap + 1) * CIRCLET_LANES);
    for (int64_t row = first; row < last;) {
        int64_t batch = (uint32_t)row / (uint32_t)p->height;
        int64_t y = (uint32_t)row % (uint32_t)p->height;
        const float *from = in + strides_at(&p->in, batch, y, 0);
        float *to = out + strides_at(&p->out, batch, y, 0);
        if (can_pair && p->in.row == p->tap_row && row + 1 < last && y + 1 < p->height) {
            depthwise_f32_row(p, from, w, held, to, s, 1);
            row += 2;
        } else {
            depthwise_f32_row(p, from, w, held, to, s, 0);
            row++;
        }
    }
}

/* The first channel of a vector of outputs: the last one overlaps the one before. */
CIRCLET_INLINE int64_t depthwise_f32_channel(const struct depthwise_f32_params *p, int64_t block,
                                             const struct depthwise_f32_shape s) {
    const int64_t channel = block * CIRCLET_LANES;
    return s.masked ? channel : s_min_i64(channel, p->channels - CIRCLET_LANES);
}

/* A row of the vectors of channels from `block` to `stop`, tile by tile. */
CIRCLET_INLINE void depthwise_f32_across(const struct depthwise_f32_params *p, const float *in,
                                         const float *weights, float *out, int64_t block,
                                         int64_t stop, const struct depthwise_f32_shape s) {
    const int64_t packed = ((int64_t)p->tap_rows * p->tap_columns + 1) * CIRCLET_LANES;
    for (int64_t tile = 0; tile < p->width; tile += s.pixels) {
        int64_t x = s_min_i64(tile, p->width - s.pixels);
        const float *w = weights + block * packed;
        for (int64_t next = block; next < stop; next++, w += packed) {
            int64_t channel = depthwise_f32_channel(p, next, s);
            vf acc[8], bias = v_load(w);
            CIRCLET_UNROLL for (int m = 0; m < s.pixels; m++) acc[m] = bias;
            depthwise_f32_sums(acc, p, in + x * p->in.pixel + channel / s.multiplier,
                               w + CIRCLET_LANES, 0, s);
            depthwise_f32_store(p, out + x * p->out.pixel + channel, acc, s);
        }
    }
}

/* The rows from `first` to `last` of the vectors of channels from `block` to `stop`. */
CIRCLET_INLINE void depthwise_f32_rows(const struct depthwise_f32_params *p, void *const *operands,
                                       int64_t first, int64_t last, int64_t block, int64_t stop,
                                       const struct depthwise_f32_shape s) {
    const int64_t parts = (stop - block + DEPTHWISE_F32_TOGETHER - 1) / DEPTHWISE_F32_TOGETHER;
    const int64_t together = (stop - block + parts - 1) / parts;
    for (; block < stop; block += together)
        for (int64_t row = first; row < last; row++) {
            int64_t batch = (uint32_t)row / (uint32_t)p->height;
            int64_t y = (uint32_t)row % (uint32_t)p->height;
            depthwise_f32_across(p, (const float *)operands[0] + strides_at(&p->in, batch, y, 0),
                                 operands[1],
                                 (float *)operands[2] + strides_at(&p->out, batch, y, 0), block,
                                 s_min_i64(block + together, stop), s);
        }
}

/* A task is `task_blocks` vectors of channels of a row. */
CIRCLET_INLINE void depthwise_f32(const struct depthwise_f32_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end, const int height,
                                  const int width, const int step, const int dilation,
                                  const int pixels, const int multiplier, const int masked,
                                  const int across) {
    const struct depthwise_f32_shape s = {height, width, step, dilation, pixels, multiplier,
                                          masked};
    const int64_t parts = (p->blocks + p->task_blocks - 1) / p->task_blocks;
    const int64_t packed = ((int64_t)p->tap_rows * p->tap_columns + 1) * CIRCLET_LANES;
    (void)scratch;
    for (int64_t task = begin; task < end;) {
        int64_t row = (uint32_t)task / (uint32_t)parts, part = (uint32_t)task % (uint32_t)parts;
        int64_t part_stop = s_min_i64(parts, part + end - task);
        int64_t rows = part == 0 && part_stop == parts ? (end - task) / parts : 1;
        rows = s_min_i64(rows, DEPTHWISE_F32_ROWS);
        int64_t stop = s_min_i64(part_stop * p->task_blocks, p->blocks);
        if (across)
            depthwise_f32_rows(p, operands, row, row + rows, part * p->task_blocks, stop, s);
        for (int64_t block = part * p->task_blocks; !across && block < stop; block++) {
            int64_t channel = depthwise_f32_channel(p, block, s);
            depthwise_f32_block(p, (const float *)operands[0] + channel / multiplier,
                                (const float *)operands[1] + block * packed,
                                (float *)operands[2] + channel, row, row + rows, s);
        }
        task += rows * (part_stop - part);
    }
}

#endif
