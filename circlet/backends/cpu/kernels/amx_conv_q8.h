/* Convolution, and products of rows, over 8-bit activations and weights on AMX tiles.
 *
 * A step multiplies up to two tiles of 16 pixels by up to four tiles of 16 channels, 64 taps at a
 * time (TDPBUSD, TDPBSSD). Of the eight tile registers four hold sums; two by two products need
 * four loads for four multiplications, one by four need five:
 *
 *                  6: w[64][16]   7: w[64][16]       a tile of weights is 16 rows of four taps of
 *     4: x[16][64]  0: sums        1: sums            16 channels, the layout of VPDPBUSD
 *     5: x[16][64]  2: sums        3: sums
 *
 * Sums go through scratch, for no instruction moves tiles to vectors.
 *
 * Taps that lie side by side in memory form a run; a run is read 64 bytes at a time, and what does
 * not fill 64 with the last 64 bytes of the run, where those read before meet zero weights. Runs
 * below 64 bytes are one shorter row of the tile. Channels of a block are in the order that
 * q8_store_tile asks for. The top bit of activations is left alone: tiles take either sign.
 */
#ifndef CIRCLET_AMX_CONV_Q8_H
#define CIRCLET_AMX_CONV_Q8_H

#include "amx.h"
#include "requantize.h"
#include "strides.h"

struct amx_conv_q8_params {
    struct image_strides in; /* bytes; of rows and pixels: between windows of outputs */
    int64_t run_down;    /* bytes between runs of two rows of taps */
    int64_t run_across;  /* bytes between two runs of one row of taps */
    struct image_strides out; /* elements */
    int64_t block_bytes; /* packed weights of one block of channels */
    int32_t image_rows;  /* output rows of one image */
    int32_t rows;        /* output rows of all images */
    int32_t row_pixels;  /* pixels of an output row */
    int32_t row_tasks;   /* groups of pixels of an output row */
    int32_t pixels;      /* pixels of a group */
    int32_t tile_pixels; /* pixels of a tile; two tiles of a group may overlap */
    int32_t runs_down;   /* rows of taps */
    int32_t runs_across; /* runs of one row of taps */
    int32_t run_bytes;   /* bytes of a run */
    int32_t channels;    /* output channels */
    int32_t blocks;      /* blocks of output channels */
    int32_t splits;      /* parts of the blocks that are separate tasks */
    int32_t pixels_first; /* whether all pixels go through a part before the next one does */
    int32_t weight_zero; /* times the sum of a window's activations is subtracted */
    int32_t zero;        /* output zero point, less 128 for uint8 */
    int32_t out_flip;    /* 128 for uint8 outputs, else 0 */
    int32_t low;         /* least output less the zero point */
    int32_t high;        /* greatest output less the zero point */
};

/* Pixels that are requantised together. */
#define AMX_TOGETHER 4

/* Tiles 0 to 3 hold sums, 4 and 5 pixels, 6 and 7 weights. */
CIRCLET_INLINE struct amx_shapes amx_conv_q8_shapes(const struct amx_conv_q8_params *p) {
    struct amx_shapes shapes = {.palette = 1};
    int depth = p->run_bytes < AMX_ROW_BYTES ? p->run_bytes : AMX_ROW_BYTES;
    for (int tile = 0; tile < 8; tile++) {
        shapes.rows[tile] = (uint8_t)(tile < 6 ? p->tile_pixels : depth / 4);
        shapes.row_bytes[tile] = (uint16_t)(tile == 4 || tile == 5 ? depth : AMX_ROW_BYTES);
    }
    return shapes;
}

/* One step over 64 taps: `groups` tiles of pixels by `tiles` tiles of channels. */
CIRCLET_INLINE void amx_conv_q8_step(struct amx *amx, const uint8_t *at, int64_t in_pixel,
                                     int64_t second, const int8_t *w, const int groups,
                                     const int tiles, const int is_signed) {
    AMX_LOAD(amx, 4, at, in_pixel);
    AMX_LOAD(amx, 6, w, AMX_ROW_BYTES);
    AMX_DOT(amx, 0, 4, 6, is_signed);
    if (groups == 2) {
        AMX_LOAD(amx, 5, at + second, in_pixel);
        AMX_DOT(amx, 2, 5, 6, is_signed);
    }
    if (tiles >= 2) {
        AMX_LOAD(amx, 7, w + AMX_TILE_BYTES, AMX_ROW_BYTES);
        AMX_DOT(amx, 1, 4, 7, is_signed);
        if (groups == 2) AMX_DOT(amx, 3, 5, 7, is_signed);
    }
    if (tiles >= 3) {
        AMX_LOAD(amx, 6, w + 2 * AMX_TILE_BYTES, AMX_ROW_BYTES);
        AMX_DOT(amx, 2, 4, 6, is_signed);
    }
    if (tiles == 4) {
        AMX_LOAD(amx, 7, w + 3 * AMX_TILE_BYTES, AMX_ROW_BYTES);
        AMX_DOT(amx, 3, 4, 7, is_signed);
    }
}

/* Where a product is in its windows and weights. */
struct amx_conv_q8_place {
    const uint8_t *run;
    const int8_t *weights;
    int64_t tap;
    int32_t across;
};

/* The next step of a product. */
CIRCLET_INLINE void amx_conv_q8_next(struct amx *amx, const struct amx_conv_q8_params *p,
                                     struct amx_conv_q8_place *place, const int groups,
                                     const int tiles, const int is_signed) {
    const int64_t length = p->run_bytes, in_pixel = p->in.pixel;
    const int64_t last = length < AMX_ROW_BYTES ? 0 : length - AMX_ROW_BYTES;
    const uint8_t *at = place->run + (place->tap < last ? place->tap : last);
    amx_conv_q8_step(amx, at, in_pixel, (p->pixels - p->tile_pixels) * in_pixel, place->weights,
                     groups, tiles, is_signed);
    place->weights += tiles * AMX_TILE_BYTES;
    place->tap += AMX_ROW_BYTES;
    if (place->tap < length) return;
    place->tap = 0;
    place->run += p->run_across;
    if (++place->across < p->runs_across) return;
    place->across = 0;
    place->run += p->run_down - p->runs_across * p->run_across;
}

CIRCLET_INLINE void amx_conv_q8_clear(struct amx *amx, const int groups, const int tiles) {
    AMX_ZERO(amx, 0);
    if (tiles >= 2) AMX_ZERO(amx, 1);
    if (groups == 2 || tiles >= 3) AMX_ZERO(amx, 2);
    if (groups * tiles == 4) AMX_ZERO(amx, 3);
}

/* The sums of a product, to [pixels][16 * tiles]. */
CIRCLET_INLINE void amx_conv_q8_sums(struct amx *amx, const struct amx_conv_q8_params *p,
                                     int32_t *to, const int groups, const int tiles) {
    const int64_t pitch = tiles * AMX_ROW_BYTES;
    uint8_t *above = (uint8_t *)to, *below = above + (p->pixels - p->tile_pixels) * pitch;
    AMX_STORE(amx, 0, above, pitch);
    if (tiles >= 2) AMX_STORE(amx, 1, above + AMX_ROW_BYTES, pitch);
    if (groups == 2) {
        AMX_STORE(amx, 2, below, pitch);
        if (tiles >= 2) AMX_STORE(amx, 3, below + AMX_ROW_BYTES, pitch);
    }
    if (tiles >= 3) AMX_STORE(amx, 2, above + 2 * AMX_ROW_BYTES, pitch);
    if (tiles == 4) AMX_STORE(amx, 3, above + 3 * AMX_ROW_BYTES, pitch);
}

/* Requantises `pixels` pixels of a block, of whose channels `left` remain; `window_sums` is
 * [pixels][16], all equal, or null. */
CIRCLET_INLINE void amx_conv_q8_store(const struct amx_conv_q8_params *p, const int32_t *sums,
                                      const int32_t *window_sums, const int32_t *qparams,
                                      uint8_t *to, int64_t left, const int pixels,
                                      const int vectors, const int form, const int tail) {
    struct q8_bounds bounds = q8_bounds_of(p->low, p->high, p->zero, p->out_flip, form);
    vi acc[AMX_TOGETHER * 16];
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) {
        vi bias = v_load_i32(qparams + n * Q8_QPARAM);
        CIRCLET_UNROLL for (int m = 0; m < pixels; m++) {
            int i = m * vectors + n;
            acc[i] = v_load_i32(sums + i * CIRCLET_LANES) + bias;
            if (window_sums) acc[i] -= v_load_i32(window_sums + m * AMX_ROWS) * p->weight_zero;
        }
    }
    q8_finish_tile(to, p->out.pixel, acc, qparams, bounds, left, pixels, vectors, form, tail);
}

/* A block whose sums wait in scratch. */
struct amx_conv_q8_pending {
    uint8_t *to;
    const int32_t *window_sums;
    const int32_t *qparams;
    int64_t left; /* channels from the block's first on */
};

/* Requantises some pixels of a block. */
CIRCLET_INLINE void amx_conv_q8_finish(const struct amx_conv_q8_params *p,
                                       const struct amx_conv_q8_pending *done,
                                       const int32_t *sums, int64_t first, const int pixels,
                                       const int tiles, const int form, const int tail) {
    const int columns = tiles * AMX_ROWS, vectors = columns / CIRCLET_LANES;
    const int32_t *window_sums = done->window_sums ? done->window_sums + first * AMX_ROWS : 0;
    uint8_t *to = done->to + first * p->out.pixel;
    sums += first * columns;
    amx_conv_q8_store(p, sums, window_sums, done->qparams, to, done->left, pixels, vectors, form,
                      tail);
}

/* Where the windows and outputs of a task are, and which blocks of channels it makes. Parts of the
 * same pixels follow each other, unless their weights come from beyond the cache: threads, which
 * have stretches of tasks, then meet the pixels that they had in the layer before. */
struct amx_conv_q8_task {
    int32_t image, row, column;
    int64_t block, last;
};

CIRCLET_INLINE struct amx_conv_q8_task amx_conv_q8_task(const struct amx_conv_q8_params *p,
                                                        int64_t task) {
    int32_t row_groups = p->rows * p->row_tasks;
    int32_t turn = p->pixels_first ? row_groups : p->splits;
    int32_t slow = (int32_t)task / turn, fast = (int32_t)task % turn;
    int32_t split = p->pixels_first ? slow : fast, group = p->pixels_first ? fast : slow;
    int32_t row = group / p->row_tasks, column = group % p->row_tasks * p->pixels;
    if (column > p->row_pixels - p->pixels) column = p->row_pixels - p->pixels;
    return (struct amx_conv_q8_task){row / p->image_rows, row % p->image_rows, column,
                                     (int64_t)p->blocks * split / p->splits,
                                     (int64_t)p->blocks * (split + 1) / p->splits};
}

CIRCLET_INLINE const uint8_t *amx_conv_q8_window(const struct amx_conv_q8_params *p,
                                                 const struct amx_conv_q8_task *t,
                                                 const void *in) {
    return (const uint8_t *)in + strides_at(&p->in, t->image, t->row, t->column);
}

/* Does the steps of a product and, in between, the rounding of the block before: products run
 * beside vectors. Some pixels are rounded twice where their number is odd. */
CIRCLET_INLINE void amx_conv_q8_advance(struct amx *amx, const struct amx_conv_q8_params *p,
                                        struct amx_conv_q8_place *place, int64_t steps,
                                        const struct amx_conv_q8_pending *done,
                                        const int32_t *sums, const int groups, const int tiles,
                                        const int form, const int is_signed, const int tail) {
    const int64_t pixels = p->pixels;
    const int64_t whole = (pixels + AMX_TOGETHER - 1) / AMX_TOGETHER;
    const int64_t parts = pixels < AMX_TOGETHER ? pixels : whole;
    int64_t step = 0;
    CIRCLET_NO_UNROLL for (int64_t part = 0; part < parts; part++) {
        CIRCLET_NO_UNROLL for (; step * parts < steps * (part + 1); step++)
            amx_conv_q8_next(amx, p, place, groups, tiles, is_signed);
        if (!done->to) continue;
        int64_t first = part * AMX_TOGETHER, latest = pixels - AMX_TOGETHER;
        if (latest < 0)
            amx_conv_q8_finish(p, done, sums, part, 1, tiles, form, tail);
        else
            amx_conv_q8_finish(p, done, sums, first < latest ? first : latest, AMX_TOGETHER, tiles,
                               form, tail);
    }
}

/* Operands: input, packed weights, qparams, output, weights of one (where windows are summed).
 *
 * groups, tiles: Tiles of pixels and of channels that a step multiplies; at most four products.
 * form: How outputs are scaled (requantize.h).
 * is_signed: Whether activations are int8.
 * summed: Whether the zero point of the weights needs the sums of windows.
 * tail: Whether the last block of channels is not whole.
 */
CIRCLET_INLINE void amx_conv_q8(const struct amx_conv_q8_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, const int groups, const int tiles,
                                const int form, const int is_signed, const int summed,
                                const int tail) {
    const int columns = tiles * AMX_ROWS, vectors = columns / CIRCLET_LANES;
    const int64_t run_steps = (p->run_bytes + AMX_ROW_BYTES - 1) / AMX_ROW_BYTES;
    const int64_t steps = p->runs_down * p->runs_across * run_steps;
    int32_t *sums = scratch;
    int32_t *window_sums = sums + 2 * AMX_ROWS * columns;
    struct amx_conv_q8_pending done = {0};
    struct amx_shapes shapes = amx_conv_q8_shapes(p);
    struct amx amx;
    AMX_BEGIN(&amx, &shapes);
    for (int64_t task = begin; task < end; task++) {
        struct amx_conv_q8_task t = amx_conv_q8_task(p, task);
        const uint8_t *in = amx_conv_q8_window(p, &t, x[0]);
        int64_t to = strides_at(&p->out, t.image, t.row, t.column);
        int32_t *task_sums = summed ? window_sums + task % 2 * 2 * AMX_ROWS * AMX_ROWS : 0;
        if (summed) {
            struct amx_conv_q8_place place = {in, x[4], 0, 0};
            amx_conv_q8_clear(&amx, groups, 1);
            CIRCLET_NO_UNROLL for (int64_t step = 0; step < steps; step++)
                amx_conv_q8_next(&amx, p, &place, groups, 1, is_signed);
            amx_conv_q8_sums(&amx, p, task_sums, groups, 1);
        }
        for (int64_t block = t.block; block < t.last; block++) {
            const int8_t *weights = (const int8_t *)x[1] + block * p->block_bytes;
            struct amx_conv_q8_place place = {in, weights, 0, 0};
            amx_conv_q8_clear(&amx, groups, tiles);
            amx_conv_q8_advance(&amx, p, &place, steps, &done, sums, groups, tiles, form,
                                is_signed, tail);
            amx_conv_q8_sums(&amx, p, sums, groups, tiles);
            done.to = (uint8_t *)x[3] + to + block * columns;
            done.window_sums = task_sums;
            done.qparams = (const int32_t *)x[2] + block * vectors * Q8_QPARAM;
            done.left = p->channels - block * columns;
        }
    }
    struct amx_conv_q8_place none = {0};
    amx_conv_q8_advance(&amx, p, &none, 0, &done, sums, groups, tiles, form, is_signed, tail);
    AMX_END();
}

#endif
