/* Depthwise convolution in float32: each channel with its own window.
 *
 * A tile is MR output pixels of one row of one vector of channels. The last tile of a row and the
 * last vector of channels overlap the ones before; only fewer channels than lanes are masked.
 * Every output is one chain of multiply-adds over rows and columns of the window in that order.
 * Where windows of neighbouring rows lie a row apart, two rows are computed together.
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
    int32_t channels;   /* channels of a pixel */
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
#define DEPTHWISE_F32_CAN_PAIR(TAPS, SW, MR) \
    (CIRCLET_HELD_TAPS == 25 && (SW) != 0 && (TAPS) <= 9 && (MR) <= 5)

CIRCLET_INLINE vf depthwise_f32_load(const float *p, int64_t channels, const int MASKED) {
    return MASKED ? v_load_n(p, channels) : v_load(p);
}

/* One window row where neighbouring pixels share columns: each column is loaded once. */
CIRCLET_INLINE void depthwise_f32_shared(vf *acc, const struct depthwise_f32_params *p,
                                         const float *in, const vf *taps, const int KW,
                                         const int SW, const int DW, const int MR,
                                         const int MASKED) {
    CIRCLET_UNROLL for (int column = 0; column <= (MR - 1) * SW + (KW - 1) * DW; column++) {
        vf x = depthwise_f32_load(in + column * p->column, p->channels, MASKED);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            int offset = column - m * SW;
            if (offset >= 0 && offset % DW == 0 && offset / DW < KW)
                acc[m] = v_fma(x, taps[offset / DW], acc[m]);
        }
    }
}

CIRCLET_INLINE void depthwise_f32_tap(vf *acc, const struct depthwise_f32_params *p,
                                      const float *in, vf tap, const int MR, const int MASKED) {
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        vf x = depthwise_f32_load(in + m * p->in.pixel, p->channels, MASKED);
        acc[m] = v_fma(x, tap, acc[m]);
    }
}

/* Sums of a tile. KH x KW is the window, or 0 where its size is only known at run time. SW and DW
 * are the distances of pixels and of taps in shared columns; SW is 0 where pixels share none. Taps
 * are in registers (`held`) or, where that is null, in memory. */
CIRCLET_INLINE void depthwise_f32_sums(vf *acc, const struct depthwise_f32_params *p,
                                       const float *in, const float *w, const vf *held,
                                       const int KH, const int KW, const int SW, const int DW,
                                       const int MR, const int MASKED) {
    if (KH == 0) {
        for (int y = 0; y < p->tap_rows; y++)
            for (int x = 0; x < p->tap_columns; x++, w += CIRCLET_LANES)
                depthwise_f32_tap(acc, p, in + y * p->tap_row + x * p->tap_column, v_load(w), MR,
                                  MASKED);
        return;
    }
    CIRCLET_UNROLL for (int y = 0; y < KH; y++) {
        vf loaded[16];
        const vf *taps = held + y * KW;
        if (!held) {
            CIRCLET_UNROLL for (int x = 0; x < KW; x++)
                loaded[x] = v_load(w + (y * KW + x) * CIRCLET_LANES);
            taps = loaded;
        }
        const float *row = in + y * p->tap_row;
        if (SW) {
            depthwise_f32_shared(acc, p, row, taps, KW, SW, DW, MR, MASKED);
        } else {
            CIRCLET_UNROLL for (int x = 0; x < KW; x++)
                depthwise_f32_tap(acc, p, row + x * p->tap_column, taps[x], MR, MASKED);
        }
    }
}

/* Sums of the tiles of two rows, of which the second starts a row of the window below the first:
 * what windows share is loaded once, and twice as many chains hide the latency of multiply-adds. */
CIRCLET_INLINE void depthwise_f32_pair(vf *upper, vf *lower, const struct depthwise_f32_params *p,
                                       const float *in, const vf *taps, const int KH, const int KW,
                                       const int SW, const int DW, const int MR,
                                       const int MASKED) {
    CIRCLET_UNROLL for (int y = 0; y <= KH; y++) {
        const float *row = in + y * p->tap_row;
        CIRCLET_UNROLL for (int column = 0; column <= (MR - 1) * SW + (KW - 1) * DW; column++) {
            vf x = depthwise_f32_load(row + column * p->column, p->channels, MASKED);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                int offset = column - m * SW;
                if (offset < 0 || offset % DW != 0 || offset / DW >= KW) continue;
                if (y < KH) upper[m] = v_fma(x, taps[y * KW + offset / DW], upper[m]);
                if (y > 0) lower[m] = v_fma(x, taps[(y - 1) * KW + offset / DW], lower[m]);
            }
        }
    }
}

CIRCLET_INLINE void depthwise_f32_store(const struct depthwise_f32_params *p, float *to,
                                        const vf *acc, const int MR, const int MASKED) {
    vf low = v_splat(p->low), high = v_splat(p->high);
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        vf y = v_clamp(acc[m], low, high);
        if (MASKED)
            v_store_n(to + m * p->out.pixel, y, p->channels);
        else
            v_store(to + m * p->out.pixel, y);
    }
}

/* One output row of one vector of channels, or two in pairs. */
CIRCLET_INLINE void depthwise_f32_row(const struct depthwise_f32_params *p, const float *in,
                                      const float *w, const vf *held, float *out, const int KH,
                                      const int KW, const int SW, const int DW, const int MR,
                                      const int MASKED, const int PAIR) {
    vf bias = v_load(w);
    for (int64_t tile = 0; tile < p->width; tile += MR) {
        int64_t x = s_min_i64(tile, p->width - MR);
        vf acc[8], below[8];
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) acc[m] = below[m] = bias;
        if (PAIR)
            depthwise_f32_pair(acc, below, p, in + x * p->in.pixel, held, KH, KW, SW, DW, MR,
                               MASKED);
        else
            depthwise_f32_sums(acc, p, in + x * p->in.pixel, w + CIRCLET_LANES,
                               KH * KW <= CIRCLET_HELD_TAPS ? held : 0, KH, KW, SW, DW, MR,
                               MASKED);
        depthwise_f32_store(p, out + x * p->out.pixel, acc, MR, MASKED);
        if (PAIR)
            depthwise_f32_store(p, out + p->out.row + x * p->out.pixel, below, MR, MASKED);
    }
}

/* The rows from `first` to `last` of one vector of channels. */
CIRCLET_INLINE void depthwise_f32_block(const struct depthwise_f32_params *p, const float *in,
                                        const float *w, float *out, int64_t first, int64_t last,
                                        const int KH, const int KW, const int SW, const int DW,
                                        const int MR, const int MASKED) {
    const int CAN_PAIR = DEPTHWISE_F32_CAN_PAIR(KH * KW, SW, MR);
    vf held[CIRCLET_HELD_TAPS];
    if (KH * KW <= CIRCLET_HELD_TAPS)
        CIRCLET_UNROLL for (int tap = 0; tap < KH * KW; tap++)
            held[tap] = v_load(w + (tap + 1) * CIRCLET_LANES);
    for (int64_t row = first; row < last;) {
        int64_t batch = (uint32_t)row / (uint32_t)p->height;
        int64_t y = (uint32_t)row % (uint32_t)p->height;
        const float *from = in + strides_at(&p->in, batch, y, 0);
        float *to = out + strides_at(&p->out, batch, y, 0);
        if (CAN_PAIR && p->in.row == p->tap_row && row + 1 < last && y + 1 < p->height) {
            depthwise_f32_row(p, from, w, held, to, KH, KW, SW, DW, MR, MASKED, 1);
            row += 2;
        } else {
            depthwise_f32_row(p, from, w, held, to, KH, KW, SW, DW, MR, MASKED, 0);
            row++;
        }
    }
}

/* A row of the vectors of channels from `block` to `stop`, tile by tile. */
CIRCLET_INLINE void depthwise_f32_across(const struct depthwise_f32_params *p, const float *in,
                                         const float *weights, float *out, int64_t block,
                                         int64_t stop, const int KH, const int KW, const int SW,
                                         const int DW, const int MR, const int MASKED) {
    const int64_t packed = ((int64_t)p->tap_rows * p->tap_columns + 1) * CIRCLET_LANES;
    for (int64_t tile = 0; tile < p->width; tile += MR) {
        int64_t x = s_min_i64(tile, p->width - MR);
        const float *w = weights + block * packed;
        for (int64_t next = block; next < stop; next++, w += packed) {
            int64_t channel = next * CIRCLET_LANES;
            if (!MASKED) channel = s_min_i64(channel, p->channels - CIRCLET_LANES);
            vf acc[8], bias = v_load(w);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) acc[m] = bias;
            depthwise_f32_sums(acc, p, in + x * p->in.pixel + channel, w + CIRCLET_LANES, 0, KH,
                               KW, SW, DW, MR, MASKED);
            depthwise_f32_store(p, out + x * p->out.pixel + channel, acc, MR, MASKED);
        }
    }
}

/* The rows from `first` to `last` of the vectors of channels from `block` to `stop`. */
CIRCLET_INLINE void depthwise_f32_rows(const struct depthwise_f32_params *p, void *const *operands,
                                       int64_t first, int64_t last, int64_t block, int64_t stop,
                                       const int KH, const int KW, const int SW, const int DW,
                                       const int MR, const int MASKED) {
    const int64_t parts = (stop - block + DEPTHWISE_F32_TOGETHER - 1) / DEPTHWISE_F32_TOGETHER;
    const int64_t together = (stop - block + parts - 1) / parts;
    for (; block < stop; block += together)
        for (int64_t row = first; row < last; row++) {
            int64_t batch = (uint32_t)row / (uint32_t)p->height;
            int64_t y = (uint32_t)row % (uint32_t)p->height;
            depthwise_f32_across(p, (const float *)operands[0] + strides_at(&p->in, batch, y, 0),
                                 operands[1],
                                 (float *)operands[2] + strides_at(&p->out, batch, y, 0), block,
                                 s_min_i64(block + together, stop), KH, KW, SW, DW, MR, MASKED);
        }
}

/* A task is `task_blocks` vectors of channels of a row. */
CIRCLET_INLINE void depthwise_f32(const struct depthwise_f32_params *p, void *const *operands,
                                  void *scratch, int64_t begin, int64_t end, const int KH,
                                  const int KW, const int SW, const int DW, const int MR,
                                  const int MASKED, const int ACROSS) {
    const int64_t parts = (p->blocks + p->task_blocks - 1) / p->task_blocks;
    const int64_t packed = ((int64_t)p->tap_rows * p->tap_columns + 1) * CIRCLET_LANES;
    (void)scratch;
    for (int64_t task = begin; task < end;) {
        int64_t row = (uint32_t)task / (uint32_t)parts, part = (uint32_t)task % (uint32_t)parts;
        int64_t part_stop = s_min_i64(parts, part + end - task);
        int64_t rows = part == 0 && part_stop == parts ? (end - task) / parts : 1;
        rows = s_min_i64(rows, DEPTHWISE_F32_ROWS);
        int64_t stop = s_min_i64(part_stop * p->task_blocks, p->blocks);
        if (ACROSS)
            depthwise_f32_rows(p, operands, row, row + rows, part * p->task_blocks, stop, KH, KW,
                               SW, DW, MR, MASKED);
        for (int64_t block = part * p->task_blocks; !ACROSS && block < stop; block++) {
            int64_t channel = block * CIRCLET_LANES;
            if (!MASKED) channel = s_min_i64(channel, p->channels - CIRCLET_LANES);
            depthwise_f32_block(p, (const float *)operands[0] + channel,
                                (const float *)operands[1] + block * packed,
                                (float *)operands[2] + channel, row, row + rows, KH, KW, SW, DW,
                                MR, MASKED);
        }
        task += rows * (part_stop - part);
    }
}

#endif
