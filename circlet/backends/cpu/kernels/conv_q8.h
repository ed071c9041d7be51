/* Convolution, and products of rows, over 8-bit activations and weights: implicit matrix product.
 *
 * A tile is `pixels` neighbouring outputs of one row by `vectors` registers of channels. Taps that
 * lie side by side in memory form a run; weights are packed for each block of channels in the
 * order in which tiles read them, four taps of each channel together, as a dot product of four
 * (VPDPBUSD, SDOT) takes them:
 *
 *     taps of a run   t0 t1 t2 t3 | t4 t5 t6 t7 | t6 t7 t8 t9     the last four of a run of ten are
 *     weights         w0 w1 w2 w3 | w4 w5 w6 w7 |  0  0 w8 w9     read with zeros for those before
 *
 * so that no byte behind a run is read. Loops go over tiles, then blocks of channels: a tile's
 * inputs stay in the first-level cache while weights stream by. The channels of a block are in the
 * order that q8_store_tile asks for (hybrid: in their own).
 *
 * Zero points are folded into the bias: the sum of (x - zx) * (w - zw) is that of x * w, less
 * zw times the sum of the window's x, plus what weights alone decide.
 *
 * With groups of channels, a block is of one group, and reads its channels of every pixel.
 */
#ifndef CIRCLET_CONV_Q8_H
#define CIRCLET_CONV_Q8_H

#include "cross_sums.h"
#include "hybrid_q8.h"
#include "requantize.h"
#include "strides.h"

struct conv_q8_params {
    struct image_strides in; /* bytes; of rows and pixels: between windows of outputs */
    int64_t run_down;      /* bytes between runs of two rows of taps */
    int64_t run_across;    /* bytes between two runs of one row of taps */
    struct image_strides out; /* elements */
    int64_t block_bytes;   /* packed weights of one block of channels */
    int64_t weights_batch; /* bytes between the weights of two images, which mostly share them */
    int64_t qparams_batch; /* registers of channels between their qparams */
    int64_t scales_batch;  /* scales of rows between two images */
    int64_t flip_down;     /* flipped rows: bytes between runs of two rows of taps in the input */
    int64_t flip_bytes;    /* flipped rows: bytes of the input that a row of outputs (tile) reads */
    int64_t flip_pixel;    /* groups, flipped rows: bytes between pixels of the input */
    int64_t group_bytes;   /* groups: bytes of a pixel between those of two */
    int64_t gather_pixel;  /* gathered windows: elements between those of two pixels */
    int64_t sparse_taps;   /* sparse excess: bytes of scratch ahead of taps */
    int64_t sparse_sums;   /* and ahead of sums */
    int32_t image_rows;    /* output rows of one image */
    int32_t rows;          /* output rows of all images */
    int32_t row_pixels;    /* pixels of an output row */
    int32_t row_tiles;     /* tiles of an output row */
    int32_t runs_down;     /* rows of taps */
    int32_t runs_across;   /* runs of one row of taps */
    int32_t run_bytes;     /* bytes of a run */
    int32_t flip_rows;     /* flipped rows: rows of taps that scratch holds */
    int32_t flip_kept;     /* flipped rows: of them, those that two rows of outputs share */
    int32_t flip_pixels;   /* groups, flipped rows: pixels to copy by themselves, or 1 */
    int32_t gather_rows;   /* gathered windows: their rows of taps */
    int32_t channels;      /* output channels of a group */
    int32_t group_blocks;  /* blocks of a group */
    int32_t blocks;        /* blocks of output channels */
    int32_t splits;        /* parts of the blocks that are separate tasks */
    int32_t weight_zero;   /* times the sum of a window's activations is subtracted */
    int32_t zero;          /* output zero point, less 128 for uint8 */
    int32_t out_flip;      /* 128 for uint8 outputs, else 0 */
    int32_t low;           /* least output less the zero point */
    int32_t high;          /* greatest output less the zero point */
    int32_t row_zeros;     /* Q8_CROSS_SUMS: whether rows have zero points of their own */
    int32_t channel_zeros; /* Q8_CROSS_SUMS: whether channels have */
    float float_low;       /* hybrid: least output */
    float float_high;      /* hybrid: greatest output */
};

/* Whether the top bit of activations changes on its way into v_dot4: never, at each load, or once
 * for each row of outputs or each tile, in scratch, where few dot products share a load. */
#define CONV_Q8_NO_FLIP 0
#define CONV_Q8_FLIP_LOADS 1
#define CONV_Q8_FLIP_ROWS 2
#define CONV_Q8_FLIP_TILES 3
/* Instead: they are unsigned although v_dot4 wants signed ones; by conv_q8_matrix.h, which takes
 * runs of 8 bytes or more, with groups of eight for four. */
#define CONV_Q8_UNSIGNED 4
#define CONV_Q8_MATRIX 8
/* By conv_q8_pairs.h, besides where top bits change. */
#define CONV_Q8_PAIRS 16
/* By conv_q8_wide.h, which has rows or tiles in scratch whether top bits change or not. */
#define CONV_Q8_WIDE 32
#define CONV_Q8_KEEP_TOPS 64
#define CONV_Q8_FLIPS(flip) ((flip) & 3)
/* Besides: no weight is -128, which conv_q8_lanes.h gains by. */
#define CONV_Q8_NARROW 128
/* Besides: a window is one run. */
#define CONV_Q8_ONE_RUN 256
/* Besides: it is gathered in scratch, for each tile, as its rows of taps are short. */
#define CONV_Q8_GATHER 512
/* Besides: there are groups of channels. */
#define CONV_Q8_GROUPS 1024
/* Besides, with CONV_Q8_PAIRS: what weights exceed their bounds by is a sparse matrix. */
#define CONV_Q8_SPARSE 2048
/* Runs of rows of taps, and of columns. */
#define CONV_Q8_DOWN(p, flip) ((flip) & CONV_Q8_ONE_RUN ? 1 : (p)->runs_down)
#define CONV_Q8_ACROSS(p, flip) ((flip) & CONV_Q8_ONE_RUN ? 1 : (p)->runs_across)

/* Forms over images, or rows, with scales or zero points that a run gives. */
#define CONV_Q8_BY_ROWS(form) ((form) == Q8_HYBRID_ROWS || (form) == Q8_CROSS_SUMS)
#define CONV_Q8_SCALED(form) ((form) == Q8_HYBRID || (form) == Q8_SUMS || CONV_Q8_BY_ROWS(form))

#define CONV_Q8_AHEAD 2048 /* bytes between the weights at work and those that are fetched */
#define CONV_Q8_LINE 64

/* Fetches weights that a step of so many bytes, a constant, will meet: packed ones lie in order. */
CIRCLET_INLINE void conv_q8_fetch(const int8_t *w, const int64_t bytes) {
    CIRCLET_UNROLL for (int64_t line = 0; line < bytes; line += CONV_Q8_LINE)
        __builtin_prefetch(w + CONV_Q8_AHEAD + line);
}

#include "conv_q8_gather.h"
#include "conv_q8_lanes.h"
#include "conv_q8_matrix.h"
#include "conv_q8_pairs.h"
#include "conv_q8_sparse.h"
#include "conv_q8_wide.h"
#include "conv_q8_rows.h"

/* Accumulates one tile; `acc` is [pixels][vectors]. */
CIRCLET_INLINE void conv_q8_step(vi *acc, const uint8_t *at, int64_t in_pixel, const int8_t *w,
                                 const int pixels, const int vectors, const int flip,
                                 const int short_run) {
    vi8 weights[8];
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) weights[n] = v_load_i8(w + n * CIRCLET_VBYTES);
    CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
        const uint8_t *p = at + m * in_pixel;
        vu8 data = short_run ? v_splat_nu8(p, short_run) : v_splat_4u8(p);
        if (CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS) data = v_flip_splat(data, vectors > 2);
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++)
            acc[m * vectors + n] =
                flip & CONV_Q8_UNSIGNED
                    ? v_dot4_unsigned(acc[m * vectors + n], data, weights[n])
                    : v_dot4(acc[m * vectors + n], data, weights[n]);
    }
}

CIRCLET_INLINE void conv_q8_product(vi *acc, const struct conv_q8_params *p, const uint8_t *in,
                                    const int8_t *w, const int pixels, const int vectors,
                                    const int flip, const int short_run) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    if (flip & CONV_Q8_MATRIX) {
        conv_q8_matrix(acc, p, in, w, pixels, vectors, flip);
        return;
    }
#endif
    if (flip & CONV_Q8_WIDE) {
        conv_q8_wide(acc, p, (const int16_t *)in, w, pixels, vectors, flip);
        return;
    }
#if CIRCLET_HAS_PAIRS
    if (flip & CONV_Q8_PAIRS) {
        conv_q8_pairs(acc, p, in, w, pixels, vectors, flip, short_run);
        return;
    }
#endif
#if CONV_Q8_HAS_HALVES
    conv_q8_halves(acc, p, in, w, pixels, vectors, flip, short_run);
    return;
#endif
    int64_t in_pixel = p->in.pixel, length = p->run_bytes, whole = length & ~3ll;
    const int64_t step = vectors * CIRCLET_VBYTES;
    for (int y = 0; y < CONV_Q8_DOWN(p, flip); y++)
        for (int x = 0; x < CONV_Q8_ACROSS(p, flip); x++) {
            const uint8_t *run = in + y * p->run_down + x * p->run_across;
            int64_t k = 0;
#if CONV_Q8_HAS_LANES
            for (; k + CONV_Q8_LANE_BYTES <= whole; k += CONV_Q8_LANE_BYTES, w += 4 * step)
                conv_q8_lanes(acc, run + k, in_pixel, w, pixels, vectors, flip);
#endif
            for (; k < whole; k += 4, w += step)
                conv_q8_step(acc, run + k, in_pixel, w, pixels, vectors, flip, 0);
            if (whole == length) continue;
            const uint8_t *tail = short_run ? run : run + length - 4;
            conv_q8_step(acc, tail, in_pixel, w, pixels, vectors, flip, short_run);
            w += step;
        }
}

#include "conv_q8_sums.h"

/* Stores a tile of floats or of sums, the first `left` of its channels with `tail`. */
CIRCLET_INLINE void conv_q8_store_floats(const vi *acc, const struct conv_q8_params *p,
                                         const int32_t *qparams, float *to, int64_t left,
                                         const struct hybrid_scale *scales, const int pixels,
                                         const int vectors, const int form, const int tail) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        const float *qparam = (const float *)(qparams + n * Q8_QPARAM);
        int64_t rest = left - n * CIRCLET_LANES;
        if (rest <= 0) continue;
        if (!tail) rest = CIRCLET_LANES;
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            float scale = scales[form == Q8_HYBRID_ROWS ? m : 0].scale;
            vi sum = acc[m * vectors + n];
            vf y = form < 0 ? (vf)sum
                            : q8_scale_float(sum, qparam, scale, p->float_low, p->float_high);
            q8_store_float(to + m * p->out.pixel + n * CIRCLET_LANES, y, rest);
        }
    }
}

/* Biases, less what zero points subtract, of one tile. */
CIRCLET_INLINE void conv_q8_start(vi *acc, const int32_t *qparams, const vi *corrections,
                                  const struct hybrid_scale *scales, const int pixels,
                                  const int vectors, const int form, const int sums) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        const int32_t *qparam = qparams + n * Q8_QPARAM;
        vi bias = form == Q8_HYBRID_ROWS ? v_zero_i32()
                  : form == Q8_HYBRID || form == Q8_SUMS
                      ? q8_hybrid_bias(qparam, scales->zero)
                      : v_load_i32(qparam);
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++)
            acc[m * vectors + n] = form == Q8_HYBRID_ROWS ? q8_hybrid_bias(qparam, scales[m].zero)
                                   : sums && sums != CONV_Q8_SUMS_IN ? (vi)(bias - corrections[m])
                                                                    : bias;
    }
}

/* What is computed of a tile: some blocks of channels of one group. */
struct conv_q8_part {
    const uint8_t *in;                 /* of the group */
    const struct hybrid_scale *scales; /* of its image or its pixels */
    const struct conv_q8_chunk *chunk; /* sparse excess: has the sums of the task */
    int64_t task;
    int64_t to;          /* its outputs, elements from the first */
    int64_t block, last; /* from the one up to the other */
    int64_t origin;      /* the first block of the group */
    int32_t image;
};

CIRCLET_INLINE void conv_q8_tile(const struct conv_q8_params *p, void *const *x,
                                 const struct conv_q8_part *part, const int pixels,
                                 const int vectors, const int form, const int flip,
                                 const int short_run, const int sums, const int tail) {
    const uint8_t *in = part->in;
    const struct hybrid_scale *scales = part->scales;
    const int hybrid = CONV_Q8_SCALED(form);
    const struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, form);
    const int8_t *weights = (const int8_t *)x[1] + part->image * p->weights_batch;
    const int32_t *first_qparams =
        (const int32_t *)x[2] + part->image * p->qparams_batch * Q8_QPARAM;
    vi corrections[16];
    if (sums && sums != CONV_Q8_SUMS_IN)
        conv_q8_corrections(corrections, p, in, x[4], pixels, flip, short_run, sums);
    for (int64_t block = part->block; block < part->last; block++) {
        vi acc[32];
        const int32_t *qparams = first_qparams + block * vectors * Q8_QPARAM;
        if (form == Q8_CROSS_SUMS)
            cross_sums_start((vu *)acc, qparams, (const struct stored_row *)scales, p->row_zeros,
                             p->channel_zeros, pixels, vectors);
        else
            conv_q8_start(acc, qparams, corrections, scales, pixels, vectors, form, sums);
#if CIRCLET_HAS_PAIRS
        if (flip & CONV_Q8_SPARSE)
            conv_q8_sparse_start(acc, part->chunk, part->task, block - part->block, pixels,
                                 vectors);
#endif
        conv_q8_product(acc, p, in, weights + block * p->block_bytes, pixels, vectors, flip,
                        short_run);
#if CIRCLET_HAS_PAIRS
        if (flip & CONV_Q8_PAIRS && !(flip & CONV_Q8_SPARSE))
            conv_q8_pairs_excess(acc, p, in, x[4], block, pixels, vectors,
                                 CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_LOADS, short_run);
#endif
        if (sums == CONV_Q8_SUMS_IN) conv_q8_correct(acc, p->weight_zero, pixels, vectors);
        int64_t first = (block - part->origin) * vectors * CIRCLET_LANES;
        int64_t left = p->channels - first;
        if (hybrid)
            conv_q8_store_floats(acc, p, qparams, (float *)x[3] + part->to + first, left, scales,
                                 pixels, vectors, form, tail);
        else
            q8_finish_tile((uint8_t *)x[3] + part->to + first, p->out.pixel, acc, qparams, bounds,
                           left, pixels, vectors, form, tail);
    }
}

/* The same of blocks that may be of several groups, the first of which begins with block 0. */
CIRCLET_INLINE void conv_q8_groups(const struct conv_q8_params *p, void *const *x,
                                   const struct conv_q8_part *all, const int pixels,
                                   const int vectors, const int form, const int flip,
                                   const int short_run, const int sums, const int tail) {
    const int64_t pitch = p->group_bytes * (flip & CONV_Q8_WIDE ? 2 : 1);
    struct conv_q8_part part = *all;
    int64_t group = all->block / p->group_blocks;
    for (; part.block < all->last; part.block = part.last, group++) {
        part.origin = group * p->group_blocks;
        part.last = s_min_i64(part.origin + p->group_blocks, all->last);
        part.in = all->in + group * pitch;
        part.to = all->to + group * p->channels;
        conv_q8_tile(p, x, &part, pixels, vectors, form, flip, short_run, sums, tail);
    }
}

/* Operands: input, packed weights, qparams, output, weights of one (with CONV_Q8_SUMS_SPLAT) or what
 * weights exceed their bounds by (with CONV_Q8_PAIRS), scales (hybrid: of each image; with
 * CONV_Q8_BY_ROWS of each pixel, where images have one row).
 *
 * pixels, vectors: The tile.
 * form: How outputs are scaled (requantize.h).
 * flip: Where the top bits of activations change.
 * run: Length of the runs where they are shorter than 4 bytes, or of the rows of taps that are
 *     gathered; else 0.
 * sums: How the sums of windows are found.
 * tail: Whether the last block of channels is not whole.
 */
CIRCLET_INLINE void conv_q8(const struct conv_q8_params *params, void *const *x, void *scratch,
                            int64_t begin, int64_t end, const int pixels, const int vectors,
                            const int form, const int flip, const int run, const int sums,
                            const int tail) {
    const int hybrid = CONV_Q8_SCALED(form);
    const int by_tiles = CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_TILES || flip & CONV_Q8_GATHER;
    const int by_rows = !by_tiles && CONV_Q8_FLIPS(flip) == CONV_Q8_FLIP_ROWS;
    const int element = by_rows && flip & CONV_Q8_WIDE ? 2 : 1; /* bytes of one in scratch */
    struct conv_q8_params tile_params = *params; /* no store of outputs can change these */
    const struct conv_q8_params *p = &tile_params;
    if (flip & CONV_Q8_GATHER) tile_params.in.pixel = params->gather_pixel;
    const int64_t tiles = (int64_t)p->rows * p->row_tiles;
    uint8_t *rows = scratch; /* of taps, of the row of outputs `row_ready` */
    int32_t first_row = 0, row_ready = -1;
    int32_t split = (int32_t)(begin / tiles), tile = (int32_t)(begin % tiles);
    int32_t line = tile / p->row_tiles, place = tile % p->row_tiles;
    int32_t image = line / p->image_rows, row = line % p->image_rows;
    int64_t block = (int64_t)p->blocks * split / p->splits;
    int64_t last = (int64_t)p->blocks * (split + 1) / p->splits;
    struct conv_q8_chunk chunk = {0};
    for (int64_t task = begin; task < end; task++) {
        int32_t column = place * pixels;
        if (column > p->row_pixels - pixels) column = p->row_pixels - pixels;
        const struct hybrid_scale *scales = hybrid ? x[5] : 0;
        if (hybrid) scales += CONV_Q8_BY_ROWS(form) ? image * p->scales_batch + column : image;
        const uint8_t *in = (const uint8_t *)x[0] + image * p->in.batch + row * p->in.row;
        const struct conv_q8_pieces pieces = conv_q8_pieces_of(p, block, last, flip);
#if CIRCLET_HAS_PAIRS
        if (flip & CONV_Q8_SPARSE && task >= chunk.last) {
            const int64_t at = task % tiles, more = s_min_i64(tiles - at, end - task);
            chunk.first = task;
            chunk.last = task + s_min_i64(more, CONV_Q8_CHUNK / pixels);
            conv_q8_sparse(p, &chunk, x[4], x[0], at,
                           by_rows || by_tiles ? p->flip_down : p->run_down, scratch, block, last,
                           pixels, vectors, CONV_Q8_FLIPS(flip) ? (int32_t)0x80808080 : 0);
        }
#endif
        if (by_rows) {
            if (line != row_ready) {
                int32_t kept = row && line == row_ready + 1 ? p->flip_kept : 0;
                first_row = conv_q8_next_rows(p, first_row, &kept);
                rows = (uint8_t *)scratch + first_row * p->run_down * element;
                conv_q8_copy_rows(params, in, rows, pieces, kept, pixels, flip, run);
            }
            row_ready = line;
            in = rows;
        }
        in += column * params->in.pixel * element;
        if (by_tiles) {
            conv_q8_copy_rows(params, in, scratch, pieces, 0, pixels, flip, run);
            in = scratch;
        }
        const struct conv_q8_part part = {
            in, scales, &chunk, task, strides_at(&p->out, image, row, column), block, last, 0, image};
        if (flip & CONV_Q8_GROUPS)
            conv_q8_groups(p, x, &part, pixels, vectors, form, flip, run, sums, tail);
        else
            conv_q8_tile(p, x, &part, pixels, vectors, form, flip,
                         flip & CONV_Q8_GATHER ? 0 : run, sums, tail);
        if (++place < p->row_tiles) continue;
        place = 0, line++;
        if (++row == p->image_rows) row = 0, image++;
        if (line < p->rows) continue;
        line = row = image = 0, split++;
        if (flip & CONV_Q8_GROUPS) row_ready = -1;
        block = (int64_t)p->blocks * split / p->splits;
        last = (int64_t)p->blocks * (split + 1) / p->splits;
    }
}

#endif
