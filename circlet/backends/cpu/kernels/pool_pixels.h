/* Pooling of floats in registers that hold neighbouring pixels: of images of one channel, as planes
 * are, and of few channels where windows are a pixel apart.
 *
 * Rows stand in a ring in scratch memory, between borders that change no result: zeros in sums,
 * infinitely low ones under maxima. Pixels a stride apart lie side by side there, so that each tap
 * of a register of windows is one load. Of maxima, which may be taken in any order, each row holds
 * those of all rows of its windows.
 */
#ifndef CIRCLET_POOL_PIXELS_H
#define CIRCLET_POOL_PIXELS_H

#include "pool.h"

struct pool_pixels_params {
    struct pool_params of;
    int64_t phase; /* elements of a row of the ring, for each pixel of a stride */
    int64_t ring;  /* rows of it, a power of two */
};

#define POOL_TALLEST 16 /* rows of a window at most, as in pixel_lanes.py */
#define POOL_BLOCK 4    /* rows of the output that are in the ring at once, as in pixel_lanes.py */
#define POOL_STEEPEST 2 /* rows between windows whose rows the ring holds */
#define POOL_SECOND(n, k, j) (2 * (j) + (k))
#if CIRCLET_LANES == 16
#define POOL_LIST TRANSPOSE_LIST_16
#elif CIRCLET_LANES == 8
#define POOL_LIST TRANSPOSE_LIST_8
#else
#define POOL_LIST TRANSPOSE_LIST_4
#endif
#define POOL_PICKED(a, b, k) __builtin_shufflevector(a, b, POOL_LIST(POOL_SECOND, k))

CIRCLET_INLINE vf pool_load(const float *from, int64_t n) {
    return n < CIRCLET_LANES ? v_load_n(from, n) : v_load(from);
}

/* Rows of the input of which the ring takes the highest elements, or one row. */
typedef struct pool_source {
    const float *from;
    int64_t rows, stride;
} pool_source;

/* Elements i .. i + n; where there are fewer rows than of a whole window, the last counts again. */
CIRCLET_INLINE vf pool_joined(const pool_source *s, int64_t i, int64_t n, const int rows) {
    vf best = pool_load(s->from + i, n);
    if (rows > 1) best = v_max(best, v_splat(-__builtin_inff()));
    CIRCLET_UNROLL for (int y = 1; y < rows; y++) {
        const float *from = s->from + s_min_i64(y, s->rows - 1) * s->stride + i;
        best = v_max(pool_load(from, n), best);
    }
    return best;
}

/* `pairs` of pixels to even and odd ones; the last step overlaps the one before it. */
CIRCLET_INLINE void pool_split(float *even, float *odd, const pool_source *s, int64_t pairs,
                               const int rows) {
    const int64_t lanes = CIRCLET_LANES;
    for (int64_t next = 0; next < pairs; next += lanes) {
        int64_t i = s_max_i64(s_min_i64(next, pairs - lanes), 0);
        int64_t n = s_min_i64(pairs, lanes), here = s_min_i64(2 * n, lanes);
        vf a = pool_joined(s, 2 * i, here, rows);
        vf b = pool_joined(s, 2 * i + here, 2 * n - here, rows);
        vf first = POOL_PICKED(a, b, 0), second = POOL_PICKED(a, b, 1);
        if (n < lanes) {
            v_store_n(even, first, n);
            v_store_n(odd, second, n);
        } else {
            v_store(even + i, first);
            v_store(odd + i, second);
        }
    }
}

/* Rows of the input to where they stand in a row of the ring. */
CIRCLET_INLINE void pool_take(const struct pool_pixels_params *p, float *to, const pool_source *s,
                              const int rows, const int stride) {
    const int64_t left = p->of.pad_left, count = p->of.in_width * p->of.channels;
    if (stride == 2) {
        float *even = to + left % 2 * p->phase + left / 2;
        float *odd = to + (left + 1) % 2 * p->phase + (left + 1) / 2;
        pool_split(even, odd, s, count / 2, rows);
        if (count % 2) v_store_n(even + count / 2, pool_joined(s, count - 1, 1, rows), 1);
        return;
    }
    to += left * p->of.channels;
    if (count < CIRCLET_LANES) v_store_n(to, pool_joined(s, 0, count, rows), count);
    else
        for (int64_t next = 0; next < count; next += CIRCLET_LANES) {
            int64_t i = s_min_i64(next, count - CIRCLET_LANES);
            v_store(to + i, pool_joined(s, i, CIRCLET_LANES, rows));
        }
}

/* Rows of the input, or for maxima of the output, that windows of output row y have in the ring: the
 * first, and behind the last. */
typedef struct pool_span {
    int64_t first, last;
} pool_span;

CIRCLET_INLINE pool_span pool_span_of(const struct pool_pixels_params *p, int64_t y) {
    int64_t top = y * p->of.stride_height - p->of.pad_top;
    return (pool_span){s_max_i64(top, 0), s_min_i64(top + p->of.window_height, p->of.in_height)};
}

/* POOL_BLOCK rows of the output, or fewer, and the rows that their windows have. */
typedef struct pool_block {
    const float *rows[POOL_TALLEST + (POOL_BLOCK - 1) * POOL_STEEPEST];
    float *to;
    int64_t count;
    const float *columns; /* of each window, that lie in the image */
    const float *shares;  /* of a tap in each window that is whole down the image */
    int64_t taps[POOL_BLOCK]; /* rows of windows that lie in the image */
} pool_block;

/* What windows i .. i + lanes of row k of a block have of each tap. */
CIRCLET_INLINE vf pool_share(const pool_block *b, int64_t k, int64_t i, const int height) {
    if (CIRCLET_LIKELY(b->taps[k] == height)) return v_load(b->shares + i);
    return v_splat(1.0f) / (v_splat((float)b->taps[k]) * v_load(b->columns + i));
}

/* Tap x of windows i .. i + n, in a row of the ring or of the image. There the last of an odd number
 * of taps is the second of pairs that start a pixel before, so that none reaches behind the row. */
CIRCLET_INLINE vf pool_tap(const struct pool_pixels_params *p, const float *row, int64_t i,
                           int64_t n, int x, const int width, const int stride,
                           const int ringed) {
    const int64_t far = x / stride * p->of.channels;
    if (ringed) return v_load(row + x % stride * p->phase + far + i);
    if (stride == 1) return pool_load(row + far + i, n);
    const int is_second = x % 2 || x == width - 1;
    const float *from = row + 2 * (far + i) + (x % 2 - is_second);
    const int64_t here = s_min_i64(2 * n, CIRCLET_LANES);
    vf a = pool_load(from, here), b = pool_load(from + here, 2 * n - here);
    return is_second ? POOL_PICKED(a, b, 1) : POOL_PICKED(a, b, 0);
}

/* Windows i .. i + n of the rows of a block: what is loaded of a row serves all windows that have
 * it, and each of these takes its taps row by row. */
CIRCLET_INLINE void pool_lanes(const struct pool_pixels_params *p, const pool_block *b, int64_t i,
                               int64_t n, const int kind, const int height, const int width,
                               const int down, const int stride, const int ringed) {
    vf sums[POOL_BLOCK];
    CIRCLET_UNROLL for (int k = 0; k < POOL_BLOCK; k++)
        sums[k] = v_splat(kind == POOL_MAX ? -__builtin_inff() : 0.0f);
    CIRCLET_UNROLL for (int y = 0; y < height + (POOL_BLOCK - 1) * down; y++)
        CIRCLET_UNROLL for (int x = 0; x < width; x++) {
            vf v = pool_tap(p, b->rows[y], i, n, x, width, stride, ringed);
            CIRCLET_UNROLL for (int k = 0; k < POOL_BLOCK; k++)
                if (y >= k * down && y < k * down + height)
                    sums[k] = pool_join_f32(sums[k], v, kind);
        }
    CIRCLET_UNROLL for (int k = 0; k < POOL_BLOCK; k++) {
        if (k == b->count) break;
        float *to = b->to + k * p->of.out.row + i;
        vf x = sums[k];
        if (kind != POOL_MAX) x *= pool_share(b, k, i, height);
        if (kind == POOL_L2) x = v_sqrt(x);
        x = v_clamp(x, v_splat(p->of.low), v_splat(p->of.high));
        if (n < CIRCLET_LANES) v_store_n(to, x, n);
        else v_store(to, x);
    }
}

CIRCLET_INLINE void pool_windows(const struct pool_pixels_params *p, const pool_block *b, int64_t i,
                                 int64_t n, const int kind, const int height, const int width,
                                 const int down, const int stride, const int ringed) {
    if (kind == POOL_MAX && ringed) pool_lanes(p, b, i, n, kind, 1, width, 1, stride, 1);
    else pool_lanes(p, b, i, n, kind, height, width, down, stride, ringed);
}

/* Writes the borders of the ring, and behind it a row of them, how many columns of each window lie in
 * the image, and shares. */
CIRCLET_INLINE void pool_start(const struct pool_pixels_params *p, float *ring, const int kind,
                               const int height, const int width, const int stride) {
    const int64_t pitch = p->phase * stride;
    const float border = kind == POOL_MAX ? -__builtin_inff() : 0.0f;
    float *columns = ring + (p->ring + 1) * pitch, *shares = columns + p->phase;
    for (int64_t i = 0; i < (p->ring + 1) * pitch; i++) ring[i] = border;
    for (int64_t i = 0; kind != POOL_MAX && i < p->phase; i++) {
        int64_t first = i / p->of.channels * stride - p->of.pad_left;
        int64_t last = s_min_i64(first + width, p->of.in_width);
        columns[i] = (float)(last - s_max_i64(first, 0));
        shares[i] = 1.0f / ((float)height * columns[i]);
    }
}

/* The ring with the highest elements of the rows of each row of a block. */
CIRCLET_INLINE void pool_fill_max(const struct pool_pixels_params *p, float *ring,
                                  const float *image, int64_t y, pool_block *b, const int height,
                                  const int stride) {
    const int64_t pitch = p->phase * stride, row = p->of.in.row;
    for (int64_t k = 0; k < POOL_BLOCK; k++) {
        b->rows[k] = ring + k * pitch;
        if (k >= b->count) continue;
        pool_span span = pool_span_of(p, y + k);
        const pool_source s = {image + span.first * row, span.last - span.first, row};
        pool_take(p, ring + k * pitch, &s, height, stride);
    }
}

/* The rows of a block; those of the input before `taken` are in the ring. How far they are now. */
CIRCLET_INLINE int64_t pool_fill(const struct pool_pixels_params *p, float *ring,
                                 const float *image, int64_t y, int64_t taken, pool_block *b,
                                 const int height, const int down, const int stride,
                                 const int ringed) {
    const int64_t pitch = p->phase * stride, row = p->of.in.row, mask = p->ring - 1;
    const int64_t last = pool_span_of(p, y + b->count - 1).last, top = y * down - p->of.pad_top;
    for (taken = s_max_i64(taken, s_max_i64(top, 0)); ringed && taken < last; taken++) {
        const pool_source s = {image + taken * row, 1, row};
        pool_take(p, ring + (taken & mask) * pitch, &s, 1, stride);
    }
    CIRCLET_UNROLL for (int i = 0; i < height + (POOL_BLOCK - 1) * down; i++) {
        const int64_t at = top + i;
        if (!ringed) b->rows[i] = image + s_min_i64(at, last - 1) * row;
        else b->rows[i] = ring + (at >= 0 && at < last ? at & mask : p->ring) * pitch;
    }
    CIRCLET_UNROLL for (int k = 0; k < POOL_BLOCK; k++) {
        pool_span span = pool_span_of(p, y + k);
        b->taps[k] = span.last - span.first;
    }
    return taken;
}

/* Operands: input, output, circlet_stop. A task is one row of the output; pixels are dense. The
 * scratch memory holds the ring, a row more, and two phases unless maxima are wanted. Windows are of
 * `height` x `width` pixels, `down` rows and `stride` columns apart: 1, or 2 of one channel.
 * `ringed`: 0 for sums of rows where they are, which no window leaves, and of no width of 1 at a
 * stride of 2. */
CIRCLET_INLINE void pool_pixels(const struct pool_pixels_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int kind, const int height,
                                const int width, const int down, const int stride,
                                const int ringed) {
    const int64_t count = p->of.out_width * p->of.channels, lanes = CIRCLET_LANES;
    float *ring = scratch, *columns = ring + (p->ring + 1) * p->phase * stride;
    stop_count stop = stop_start(x[2]);
    pool_start(p, ring, kind, height, width, stride);
    pool_block b = {.columns = columns, .shares = columns + p->phase};
    for (int64_t task = begin, taken = 0; task < end; task += b.count) {
        int64_t image = task / p->of.out_height, y = task % p->of.out_height;
        const float *from = (const float *)x[0] + image * p->of.in.batch;
        b.to = (float *)x[1] + strides_at(&p->of.out, image, y, 0);
        b.count = s_min_i64(s_min_i64(p->of.out_height - y, end - task), POOL_BLOCK);
        if (kind == POOL_MAX && ringed) pool_fill_max(p, ring, from, y, &b, height, stride);
        else taken = pool_fill(p, ring, from, y, y ? taken : 0, &b, height, down, stride, ringed);
        if (count < lanes) pool_windows(p, &b, 0, count, kind, height, width, down, stride, ringed);
        else
            for (int64_t next = 0; next < count; next += lanes)
                pool_windows(p, &b, s_min_i64(next, count - lanes), lanes, kind, height, width,
                             down, stride, ringed);
        if (stop_after(&stop, b.count * height * width * p->phase)) return;
    }
}

#endif
