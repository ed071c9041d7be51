/* What weights of conv_q8_pairs.h exceed their bounds by, as a sparse matrix.
 *
 * That is one weight of a hundred, or of ten, in any place. Its products have pixels as lanes: an
 * entry is two pairs of taps of one channel, for a chunk of pixels, which are those of several
 * tiles:
 *
 *     taps     x0 x1 | x0 x1 | ...    pixel by pixel, widened to 16 bits, from the input
 *     sums     channel by channel, then transposed: tiles start with them
 */
#ifndef CIRCLET_CONV_Q8_SPARSE_H
#define CIRCLET_CONV_Q8_SPARSE_H

#include "simd_int.h"
#include "transpose.h"

/* Which tasks, each a tile, have their sums in scratch. */
struct conv_q8_chunk {
    int64_t first, last;
    const int32_t *sums; /* [blocks of the tasks][CONV_Q8_CHUNK][channels of a block] */
};

#if CIRCLET_HAS_PAIRS

#define CONV_Q8_CHUNK (2 * CIRCLET_LANES) /* pixels */

/* Two pairs of taps of one channel. */
struct conv_q8_sparse_entry {
    int32_t sums;       /* bytes to the channel's, within its block's */
    int32_t taps[2];    /* bytes to each pair */
    int32_t weights[2]; /* two int16 each */
};

/* Four taps of LANES pixels as two pairs of int16. */
CIRCLET_INLINE void conv_q8_sparse_widen(int32_t *to, vi taps) {
    v_store_i32(to, (taps & 0xff) | ((taps << 8) & 0xff0000));
    v_store_i32(to + CONV_Q8_CHUNK, ((taps >> 16) & 0xff) | ((taps >> 8) & 0xff0000));
}

/* The taps of a run of LANES pixels. */
CIRCLET_INLINE void conv_q8_sparse_run(int32_t *to, const uint8_t *const *pixels, int64_t offset,
                                       int64_t length, int32_t change) {
    const int64_t whole = length / 4;
    int64_t group = 0;
    for (int64_t next = 0; next < whole && whole >= CIRCLET_LANES; next = group) {
        vi taps[CIRCLET_LANES];
        group = s_min_i64(next, whole - CIRCLET_LANES);
        CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++)
            taps[i] = (vi)v_load_u8(pixels[i] + offset + 4 * group) ^ change;
        transpose_square_whole(taps);
        CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++)
            conv_q8_sparse_widen(to + (group + i) * 2 * CONV_Q8_CHUNK, taps[i]);
        group += CIRCLET_LANES;
    }
    for (; 4 * group < length; group++) {
        union { int32_t pixel[CIRCLET_LANES]; vi all; } taps;
        const int64_t at = offset + s_min_i64(4 * group, length - 4);
        CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++)
            taps.pixel[i] = (int32_t)*(const copy_u32 *)(pixels[i] + at);
        conv_q8_sparse_widen(to + group * 2 * CONV_Q8_CHUNK, taps.all ^ change);
    }
}

/* The taps of all runs of a chunk of pixels, whose rows of taps are `down` apart. */
CIRCLET_INLINE void conv_q8_sparse_taps(const struct conv_q8_params *p, int32_t *taps,
                                        const uint8_t *const *pixels, int64_t down,
                                        int32_t change) {
    const int64_t run_taps = (p->run_bytes + 3) / 4 * 2 * CONV_Q8_CHUNK;
    for (int y = 0; y < p->runs_down; y++)
        for (int x = 0; x < p->runs_across; x++, taps += run_taps)
            for (int i = 0; i < CONV_Q8_CHUNK; i += CIRCLET_LANES)
                conv_q8_sparse_run(taps + i, pixels + i, y * down + x * p->run_across,
                                   p->run_bytes, change);
}

/* Adds entries to the sums of one block, [channels][CONV_Q8_CHUNK]. */
CIRCLET_INLINE void conv_q8_sparse_add(vi *sums, const int32_t *taps,
                                       const struct conv_q8_sparse_entry *entry,
                                       const struct conv_q8_sparse_entry *end) {
    CIRCLET_NO_UNROLL for (; entry < end; entry++) {
        vi *to = (vi *)((char *)sums + entry->sums), first = to[0], second = to[1];
        CIRCLET_UNROLL for (int k = 0; k < 2; k++) {
            const int32_t *pairs = (const int32_t *)((const char *)taps + entry->taps[k]);
            vi16 weights = (vi16)v_splat_i32(entry->weights[k]);
            first += v_madd_i16((vi16)v_load_i32(pairs), weights);
            second += v_madd_i16((vi16)v_load_i32(pairs + CIRCLET_LANES), weights);
        }
        to[0] = first, to[1] = second;
    }
}

/* Where the pixels of so many tiles are in the input, from tile `tile` of a split; the last one
 * again behind these. */
CIRCLET_INLINE void conv_q8_sparse_pixels(const struct conv_q8_params *p, const uint8_t *in,
                                          const uint8_t **to, int64_t tile, int64_t tiles,
                                          const int pixels) {
    int count = 0;
    for (; tiles > 0; tiles--, tile++) {
        int64_t line = tile / p->row_tiles, column = tile % p->row_tiles * pixels;
        column = s_min_i64(column, p->row_pixels - pixels);
        const uint8_t *at = in + line / p->image_rows * p->in.batch +
                            line % p->image_rows * p->in.row + column * p->in.pixel;
        for (int m = 0; m < pixels; m++) to[count++] = at + m * p->in.pixel;
    }
    for (; count < CONV_Q8_CHUNK; count++) to[count] = to[count - 1];
}

/* Sums of the tiles from `tile` on, of so many tasks from the first of `chunk`, and of all blocks
 * from `block` to `last`. `table` is where the entries of each block begin, so many blocks and one
 * more, then all of them. */
CIRCLET_INLINE void conv_q8_sparse(const struct conv_q8_params *p, struct conv_q8_chunk *chunk,
                                   const int32_t *table, const uint8_t *in, int64_t tile,
                                   int64_t down, void *scratch, int64_t block, int64_t last,
                                   const int pixels, const int vectors, int32_t change) {
    const struct conv_q8_sparse_entry *entries =
        (const void *)(table + (p->blocks + 4) / 4 * 4);
    int32_t *taps = (int32_t *)((char *)scratch + p->sparse_taps);
    int32_t *to = (int32_t *)((char *)scratch + p->sparse_sums);
    const uint8_t *places[CONV_Q8_CHUNK];
    conv_q8_sparse_pixels(p, in, places, tile, chunk->last - chunk->first, pixels);
    conv_q8_sparse_taps(p, taps, places, down, change);
    chunk->sums = to;
    for (; block < last; block++, to += CONV_Q8_CHUNK * vectors * CIRCLET_LANES) {
        vi sums[2 * 8 * CIRCLET_LANES];
        CIRCLET_UNROLL for (int i = 0; i < 2 * vectors * CIRCLET_LANES; i++) sums[i] = v_zero_i32();
        conv_q8_sparse_add(sums, taps, entries + table[block], entries + table[block + 1]);
        CIRCLET_NO_UNROLL for (int i = 0; i < 2 * vectors; i++) {
            const int half = i & 1, n = i >> 1;
            vi rows[CIRCLET_LANES];
            CIRCLET_UNROLL for (int c = 0; c < CIRCLET_LANES; c++)
                rows[c] = sums[(n * CIRCLET_LANES + c) * 2 + half];
            transpose_square_whole(rows);
            int32_t *first = to + (half * vectors * CIRCLET_LANES + n) * CIRCLET_LANES;
            CIRCLET_UNROLL for (int m = 0; m < CIRCLET_LANES; m++)
                v_store_i32(first + m * vectors * CIRCLET_LANES, rows[m]);
        }
    }
}

/* Adds the sums of a task's tile, of the block that is so many behind the task's first. */
CIRCLET_INLINE void conv_q8_sparse_start(vi *acc, const struct conv_q8_chunk *chunk, int64_t task,
                                         int64_t block, const int pixels, const int vectors) {
    const int64_t first = block * CONV_Q8_CHUNK + (task - chunk->first) * pixels;
    const int32_t *from = chunk->sums + first * vectors * CIRCLET_LANES;
    CIRCLET_UNROLL for (int i = 0; i < pixels * vectors; i++)
        acc[i] += v_load_i32(from + i * CIRCLET_LANES);
}

#endif
#endif
