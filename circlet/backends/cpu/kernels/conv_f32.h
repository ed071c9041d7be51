/* Convolution in float32 as an implicit matrix product; also fully connected layers, grouped and
 * transposed convolutions, which the lowerings express with the same parameters.
 *
 * A tile is MR output pixels of one row times NV vectors of output channels, held in registers:
 *
 *                 w[k][0] w[k][1] ... w[k][NV-1]     A step of depth loads NV vectors of weights
 *     x[0][k]     acc     acc         acc            and broadcasts MR inputs, from memory where
 *       ...                                          an instruction can, for MR * NV
 *     x[MR-1][k]  acc     acc         acc            multiply-adds.
 *
 * MR * NV sums, NV weights and one input must fit the registers (32 or 16); two multiply-adds a
 * cycle of latency 4 want at least 8 sums. The last tile of a row overlaps the one before. Every
 * output is one chain of multiply-adds over rows, columns and channels of the window in that order,
 * whatever the tiling: results do not depend on the tile that was chosen.
 *
 * Operands: input, packed weights, output, addend (or null). Weights are packed per block of
 * NV * CIRCLET_LANES output channels: the bias, then one row of channels per tap element; blocks
 * do not cross groups, missing channels are zero. With HALF the last vector of a block is half a
 * vector: some processors compute those in half the time.
 *
 * While the tiles of a task go through one block of weights, they fetch the next one into the
 * second-level cache, a line for every four steps of depth: from beyond it, one core reads weights
 * several times slower than it multiplies them.
 */
#ifndef CIRCLET_CONV_F32_H
#define CIRCLET_CONV_F32_H

#include "simd.h"
#include "strides.h"

struct conv_f32_params {
    struct image_strides in; /* from the inputs of output pixels to those of the next */
    struct image_strides out;
    struct image_strides add;
    int64_t tap_row;    /* input elements between rows of the window */
    int64_t tap_run;    /* input elements between runs of a window row */
    int64_t tap_rows;   /* rows of the window */
    int64_t tap_runs;   /* contiguous runs in a row of the window */
    int64_t run;        /* elements of a run */
    int32_t width;      /* output pixels of a row, at least MR */
    int32_t height;     /* output rows of an image */
    int32_t row_tiles;  /* tiles of a row */
    int32_t tiles;      /* tiles of all rows */
    int32_t task_tiles; /* tiles of a task */
    int32_t joined;     /* tasks of a block, side by side, that a thread does before the next block */
    int32_t blocks;     /* channel blocks of all groups */
    int32_t group_blocks;   /* channel blocks of a group */
    int32_t group_channels; /* output channels of a group */
    int32_t group_inputs;   /* input channels of a group */
    int32_t add_channels;   /* channels of the addend; it is zero for those behind */
    int32_t fetches;    /* whether tiles fetch the lines that they end with, which lie far away */
    float low;          /* smallest result */
    float high;         /* largest result */
};

#define CONV_F32_WIDTH(NV, HALF) ((NV) * CIRCLET_LANES - (HALF) * CIRCLET_LANES / 2)
#define CONV_F32_LINE 64 /* bytes that are fetched at once */
#define CONV_F32_FETCH(at) __builtin_prefetch(at, 0, 2)

#if CIRCLET_VBYTES == 64
/* Lanes of the lower half alone; those above have no defined value. */
typedef CIRCLET_VECTOR(float, 32) conv_f32_half;
typedef CIRCLET_UNALIGNED(float, 32) conv_f32_half_u;
#define CONV_F32_HAS_HALVES 1
#define CONV_F32_LOW(x) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define CONV_F32_WIDE(x) \
    __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1)
CIRCLET_INLINE vf conv_f32_load(const float *p, const int LOW) {
    if (!LOW) return v_load(p);
    conv_f32_half low = *(const conv_f32_half_u *)p;
    return CONV_F32_WIDE(low);
}
CIRCLET_INLINE void conv_f32_store_half(float *p, vf x) {
    *(conv_f32_half_u *)p = CONV_F32_LOW(x);
}
/* c + *a * b. Assembly, because compilers would widen it to all lanes again. */
CIRCLET_INLINE vf conv_f32_fma_low(const float *a, vf b, vf c) {
    conv_f32_half sum = CONV_F32_LOW(c);
    __asm__("vfmadd231ps %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(CONV_F32_LOW(b)), "m"(*a));
    return CONV_F32_WIDE(sum);
}
#else
#define CONV_F32_HAS_HALVES 0
#define conv_f32_store_half(p, x) ((void)0)
CIRCLET_INLINE vf conv_f32_load(const float *p, const int LOW) {
    (void)LOW;
    return v_load(p);
}
CIRCLET_INLINE vf conv_f32_fma_low(const float *a, vf b, vf c) { return v_fma(v_splat(*a), b, c); }
#endif

#if defined(__aarch64__)
/* One run: four elements of each pixel at a time, multiplied by lane. */
CIRCLET_INLINE const float *conv_f32_run(vf (*acc)[8], const float *a, int64_t step, int64_t run,
                                         const float *w, const char *ahead, const int MR,
                                         const int NV, const int HALF) {
    const int width = CONV_F32_WIDTH(NV, HALF);
    int64_t k = run;
    for (; k >= 4; k -= 4, a += 4, w += 4 * width, ahead += CONV_F32_LINE) {
        vf x[16];
        CONV_F32_FETCH(ahead);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) x[m] = v_load(a + m * step);
        CIRCLET_UNROLL for (int u = 0; u < 4; u++)
            CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
                vf weight = v_load(w + u * width + v * CIRCLET_LANES);
                CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                    acc[m][v] = v_fma(v_splat(x[m][u]), weight, acc[m][v]);
            }
    }
    for (; k; k--, a++, w += width)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            CIRCLET_UNROLL for (int m = 0; m < MR; m++)
                acc[m][v] =
                    v_fma(v_splat(a[m * step]), v_load(w + v * CIRCLET_LANES), acc[m][v]);
    return w;
}
#else
CIRCLET_INLINE void conv_f32_element(vf (*acc)[8], const float **base, int64_t step, int u,
                                     const float *w, const int MR, const int NV,
                                     const int HALF) {
    vf weight[8];
    CIRCLET_UNROLL for (int v = 0; v < NV; v++)
        weight[v] = conv_f32_load(w + u * CONV_F32_WIDTH(NV, HALF) + v * CIRCLET_LANES,
                                  HALF && v == NV - 1);
    CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
        const float *x = &base[m / 3][m % 3 * step + u];
        CIRCLET_UNROLL for (int v = 0; v < NV - HALF; v++)
            acc[m][v] = v_fma(v_splat(*x), weight[v], acc[m][v]);
        if (HALF) acc[m][NV - 1] = conv_f32_fma_low(x, weight[NV - 1], acc[m][NV - 1]);
    }
}

/* The empty assembly keeps one address register for every third pixel; compilers left alone keep
 * one for each and spill. */
CIRCLET_INLINE const float *conv_f32_run(vf (*acc)[8], const float *a, int64_t step, int64_t run,
                                         const float *w, const char *ahead, const int MR,
                                         const int NV, const int HALF) {
    const float *base[6];
    CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] = a + 3 * j * step;
    int64_t k = run;
    CIRCLET_NO_UNROLL for (; k >= 4; k -= 4) {
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) __asm__("" : "+r"(base[j]));
        CONV_F32_FETCH(ahead);
        ahead += CONV_F32_LINE;
        CIRCLET_UNROLL for (int u = 0; u < 4; u++)
            conv_f32_element(acc, base, step, u, w, MR, NV, HALF);
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] += 4;
        w += 4 * CONV_F32_WIDTH(NV, HALF);
    }
    CIRCLET_NO_UNROLL for (; k; k--) {
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) __asm__("" : "+r"(base[j]));
        conv_f32_element(acc, base, step, 0, w, MR, NV, HALF);
        CIRCLET_UNROLL for (int j = 0; j * 3 < MR; j++) base[j] += 1;
        w += CONV_F32_WIDTH(NV, HALF);
    }
    return w;
}
#endif

/* Adds, clamps and stores one vector of channels of each pixel: `left` of its channels exist, and
 * `added` of the addend's. */
CIRCLET_INLINE void conv_f32_finish(vf (*acc)[8], const struct conv_f32_params *p, float *out,
                                    const float *add, int64_t left, int64_t added, int v,
                                    const int MR, const int ADD) {
    vf low = v_splat(p->low), high = v_splat(p->high);
    if (ADD && s_min_i64(left, added) >= CIRCLET_LANES) {
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            acc[m][v] = acc[m][v] + v_load(add + m * p->add.pixel);
    } else if (ADD && s_min_i64(left, added) > 0) {
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            acc[m][v] = acc[m][v] + v_load_n(add + m * p->add.pixel, s_min_i64(left, added));
    }
    if (left >= CIRCLET_LANES) {
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            v_store(out + m * p->out.pixel, v_clamp(acc[m][v], low, high));
    } else if (CONV_F32_HAS_HALVES && left == CIRCLET_LANES / 2) {
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            conv_f32_store_half(out + m * p->out.pixel, v_clamp(acc[m][v], low, high));
    } else if (left > 0) {
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            v_store_n(out + m * p->out.pixel, v_clamp(acc[m][v], low, high), left);
    }
}

/* Sums start as the biases at the head of a block of weights. */
CIRCLET_INLINE void conv_f32_start(vf (*acc)[8], const float *w, const int MR, const int NV) {
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
        vf bias = v_load(w + v * CIRCLET_LANES);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) acc[m][v] = bias;
    }
}

/* All vectors of a tile through conv_f32_finish. */
CIRCLET_INLINE void conv_f32_end(vf (*acc)[8], const struct conv_f32_params *p, float *out,
                                 const float *add, int64_t left, int64_t added, const int MR,
                                 const int NV, const int HALF, const int ADD) {
    left = s_min_i64(left, CONV_F32_WIDTH(NV, HALF));
    CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
        int at = v * CIRCLET_LANES;
        conv_f32_finish(acc, p, out + at, add + at, left - at, added - at, v, MR, ADD);
    }
}

/* What tile number `tile` of a task is to fetch of the `bytes` of weights behind those at `w`. */
CIRCLET_INLINE const char *conv_f32_ahead(const float *w, int64_t bytes, int64_t taps,
                                          int64_t tile) {
    int64_t done = tile * (taps / 4) * CONV_F32_LINE;
    return (const char *)w + (done < bytes ? bytes + done : 0);
}

CIRCLET_INLINE void conv_f32_tile(const struct conv_f32_params *p, const float *a, const float *w,
                                  const char *ahead, float *out, const float *add, int64_t left,
                                  int64_t added, const int MR, const int NV, const int HALF,
                                  const int ADD) {
    vf acc[16][8];
    conv_f32_start(acc, w, MR, NV);
    w += CONV_F32_WIDTH(NV, HALF);
    for (int64_t y = 0; y < p->tap_rows; y++)
        for (int64_t x = 0; x < p->tap_runs; x++, ahead += p->run / 4 * CONV_F32_LINE)
            w = conv_f32_run(acc, a + y * p->tap_row + x * p->tap_run, p->in.pixel, p->run, w,
                             ahead, MR, NV, HALF);
    conv_f32_end(acc, p, out, add, left, added, MR, NV, HALF, ADD);
}

/* Elements from the starts of the operands to those of a tile. */
struct conv_f32_place {
    int64_t in, out, add;
};

/* Tiles, and the channel blocks that are made of each: a task, or those that are joined. */
struct conv_f32_span {
    uint32_t tile, stop;
    uint32_t block, last;
    int64_t tasks;
};

/* What a thread does next of its tasks. A task is `task_tiles` tiles of one channel block; those of
 * the same tiles follow each other, so that threads, which have stretches of tasks, find in their
 * caches what they made in the step before, and leave there what they read in the next one. Whole
 * rows of tasks are joined: the weights of a block stay in the first-level cache for all their
 * tiles, the input of the tiles in the second-level cache for all blocks. */
CIRCLET_INLINE struct conv_f32_span conv_f32_span(const struct conv_f32_params *p, int64_t task,
                                                  int64_t end) {
    uint32_t blocks = (uint32_t)p->blocks, first = (uint32_t)task / blocks;
    uint32_t block = (uint32_t)task % blocks;
    int64_t left = end - task, rows = block ? 0 : left / blocks;
    uint32_t joined = (uint32_t)s_max_i64(1, s_min_i64(rows, p->joined));
    uint32_t last = rows ? blocks : (uint32_t)s_min_i64(blocks, block + left);
    uint32_t tile = first * (uint32_t)p->task_tiles;
    int64_t stop = s_min_i64((int64_t)tile + (int64_t)joined * p->task_tiles, p->tiles);
    return (struct conv_f32_span){tile, (uint32_t)stop, block, last,
                                  (int64_t)joined * (last - block)};
}

/* The tiles of one channel block. */
struct conv_f32_task {
    uint32_t tile, stop;
    uint32_t row, column; /* of the tile, in rows of tiles */
    int64_t left;     /* channels of the group from the block's first on */
    int64_t channel;  /* the block's first */
    int64_t in_group; /* the group's first input channel */
    struct conv_f32_place start; /* of the row */
};

CIRCLET_INLINE void conv_f32_find_row(const struct conv_f32_params *p, struct conv_f32_task *t) {
    int64_t batch = t->row / (uint32_t)p->height, y = t->row % (uint32_t)p->height;
    t->start = (struct conv_f32_place){strides_at(&p->in, batch, y, 0) + t->in_group,
                                       strides_at(&p->out, batch, y, 0) + t->channel,
                                       strides_at(&p->add, batch, y, 0) + t->channel};
}

CIRCLET_INLINE struct conv_f32_task conv_f32_task(const struct conv_f32_params *p,
                                                  const struct conv_f32_span *span,
                                                  uint32_t block, const int width) {
    uint32_t group = block / (uint32_t)p->group_blocks;
    int64_t first = (int64_t)(block % (uint32_t)p->group_blocks) * width;
    struct conv_f32_task t = {
        .tile = span->tile,
        .stop = span->stop,
        .row = span->tile / (uint32_t)p->row_tiles,
        .column = span->tile % (uint32_t)p->row_tiles,
        .left = p->group_channels - first,
        .channel = (int64_t)group * p->group_channels + first,
        .in_group = (int64_t)group * p->group_inputs,
    };
    conv_f32_find_row(p, &t);
    return t;
}

CIRCLET_INLINE struct conv_f32_place conv_f32_place(const struct conv_f32_params *p,
                                                    const struct conv_f32_task *t, const int MR) {
    int64_t x = s_min_i64((int64_t)t->column * MR, p->width - MR);
    return (struct conv_f32_place){t->start.in + x * p->in.pixel,
                                   t->start.out + x * p->out.pixel,
                                   t->start.add + x * p->add.pixel};
}

/* On to the next tile: nothing is divided but where a row begins, so that its addresses are known
 * long before the tile ahead of it is done. */
CIRCLET_INLINE void conv_f32_next(const struct conv_f32_params *p, struct conv_f32_task *t) {
    t->tile++, t->column++;
    if (CIRCLET_LIKELY(t->column < (uint32_t)p->row_tiles) || t->tile >= t->stop) return;
    t->column = 0, t->row++;
    conv_f32_find_row(p, t);
}

/* Fetches the lines that a tile ends with: they are too far apart for the processor to guess. */
CIRCLET_INLINE void conv_f32_fetch(const struct conv_f32_params *p, const float *out,
                                   const float *add, const int MR, const int NV, const int ADD) {
    const int line = CONV_F32_LINE / 4;
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int at = 0; at < NV * CIRCLET_LANES; at += line) {
            __builtin_prefetch(out + m * p->out.pixel + at, 1);
            if (ADD) __builtin_prefetch(add + m * p->add.pixel + at, 0);
        }
}

CIRCLET_INLINE void conv_f32_block(const struct conv_f32_params *p, void *const *operands,
                                   const struct conv_f32_span *span, uint32_t number,
                                   const int MR, const int NV, const int HALF, const int ADD) {
    const int width = CONV_F32_WIDTH(NV, HALF);
    struct conv_f32_task t = conv_f32_task(p, span, number, width);
    int64_t taps = p->tap_rows * p->tap_runs * p->run, block = (taps + 1) * width;
    const float *in = operands[0], *add = ADD ? operands[3] : operands[2];
    const float *w = (const float *)operands[1] + number * block;
    float *out = operands[2];
    for (int64_t tile = 0; t.tile < t.stop; conv_f32_next(p, &t), tile++) {
        struct conv_f32_place at = conv_f32_place(p, &t, MR);
        if (p->fetches)
            conv_f32_fetch(p, out + at.out, add + at.add, MR, NV, ADD);
        conv_f32_tile(p, in + at.in, w, conv_f32_ahead(w, block * 4, taps, tile), out + at.out,
                      add + at.add, t.left, p->add_channels - t.channel, MR, NV, HALF, ADD);
    }
}

CIRCLET_INLINE void conv_f32(const struct conv_f32_params *p, void *const *operands, void *scratch,
                             int64_t begin, int64_t end, const int MR, const int NV,
                             const int HALF, const int ADD) {
    (void)scratch;
    for (int64_t task = begin; task < end;) {
        struct conv_f32_span span = conv_f32_span(p, task, end);
        for (uint32_t block = span.block; block < span.last; block++)
            conv_f32_block(p, operands, &span, block, MR, NV, HALF, ADD);
        task += span.tasks;
    }
}

#endif
