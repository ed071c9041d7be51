/* 8-bit weights that are computed at run time, packed as conv_q8.h reads constant ones, and the
 * part of its requantisation parameters ("qparams") that depends on them.
 *
 * Per block of channels, tap by tap, a row of words for each four bytes of a channel's run:
 *
 *     run of a channel    b0 b1 b2 b3 | b4 b5          its last bytes stand at the end of a word
 *     row 0               b0 b1 b2 b3 of each channel  channels in the order of q8_store_tile
 *     row 1               0  0  b4 b5 of each channel
 *
 * A sum starts with bias - (zero + offset) * sum(w - weight_zero), where `offset` is what flipping
 * the top bit of activations adds to them. The packed weights of a lane are that sum's terms, so
 * that v_dot4 with ones adds them up where they are wanted.
 *
 * The weights of matrix products are a stack of matrices, each of one run a channel; either the
 * elements of a run lie side by side, or the channels do.
 */
#ifndef CIRCLET_PACK_CONV_Q8_H
#define CIRCLET_PACK_CONV_Q8_H

#include "requantize.h"
#include "rows.h"
#include "transpose.h"

struct pack_conv_q8_params {
    int64_t filter;      /* bytes between channels */
    int64_t element;     /* bytes between elements of a run; this or `filter` is 1 */
    int64_t taps;        /* runs of a channel, one behind the other */
    int64_t run;         /* bytes of a run */
    int64_t block_bytes; /* packed weights of one block of channels */
    int64_t channels;
    int64_t blocks;      /* of channels of a matrix */
    int64_t sizes[6];    /* of the stack of matrices */
    int64_t matrices[7]; /* bytes between them */
    int32_t factor;      /* times the sum of a channel's weights is added to its bias */
    int32_t addend;      /* added to every bias */
    int32_t flip;        /* 0x80 in each byte where weights are unsigned, else 0 */
};

/* Vectors that q8_store_tile narrows together, or each of its own where sums are stored. */
#define PACK_CONV_Q8_NARROWED 4
#define PACK_CONV_Q8_IN_ORDER 1

/* The channel in a block of the first of four lanes; the other three follow it. */
CIRCLET_INLINE int64_t pack_conv_q8_channel(int64_t place, const int vectors, const int group) {
    int64_t vector = place / CIRCLET_LANES, lane = place % CIRCLET_LANES;
    int64_t first = vector / group * group, together = s_min_i64(vectors - first, group);
    return first * CIRCLET_LANES + (lane / 4 * together + vector - first) * 4;
}

/* The other way round: the first of the lanes of four channels. */
CIRCLET_INLINE int64_t pack_conv_q8_place(int64_t channel, const int vectors, const int group) {
    int64_t first = channel / (group * CIRCLET_LANES) * group;
    int64_t together = s_min_i64(vectors - first, group);
    int64_t four = channel / 4 - first * CIRCLET_LANES / 4;
    return (first + four % together) * CIRCLET_LANES + four / together * 4;
}

/* Which bytes of the word at the end of a run are not in the words before it. */
CIRCLET_INLINE uint32_t pack_conv_q8_mask(int64_t run) {
    uint32_t skipped = (uint32_t)(-run & 3) * 8;
    return run < 4 ? ~0u >> skipped : ~0u << skipped;
}

CIRCLET_INLINE uint32_t pack_conv_q8_tail(const uint8_t *from, int64_t run) {
    uint32_t word = 0;
    if (run >= 4) return *(const copy_u32 *)(from + run - 4) & pack_conv_q8_mask(run);
    CIRCLET_COUNT(i, run) word |= (uint32_t)from[i] << 8 * i;
    return word;
}

/* A run of `count` of four channels; words are `step` bytes apart. */
CIRCLET_INLINE void pack_conv_q8_run(uint8_t *to, int64_t step, const uint8_t *from,
                                     int64_t filter, int64_t run, int64_t count) {
    int64_t whole = run & ~3ll, k = 0;
    if (count > 0)
        for (; k + 16 <= whole; k += 16)
            transpose_block_4((char *)to + k / 4 * step, step, (const char *)from + k, filter, count, 4);
    for (int c = 0; c < 4; c++) {
        const uint8_t *y = from + c * filter;
        CIRCLET_NO_UNROLL for (int64_t i = k; i < whole; i += 4)
            *(copy_u32 *)(to + i / 4 * step + c * 4) = c < count ? *(const copy_u32 *)(y + i) : 0;
        if (whole == run) continue;
        uint32_t tail = c < count ? pack_conv_q8_tail(y, run) : 0;
        *(copy_u32 *)(to + whole / 4 * step + c * 4) = tail;
    }
}

/* The words of sixteen channels that lie side by side, of which there are `count`: four
 * neighbouring words at each of four places, which are written from the last to the first. */
CIRCLET_INLINE void pack_conv_q8_sixteen(const struct pack_conv_q8_params *p, uint8_t *to,
                                         const int64_t places[4], const uint8_t *from,
                                         int64_t count, int64_t step) {
    const int64_t whole = p->run & ~3ll;
    transpose_row_1 rows[16];
    for (int64_t k = 0; k < p->run; k += 4, to += step) {
        if (k < whole && count == 16) {
            transpose_load_1(rows, (const char *)from + k * p->element, p->element, 4, 4);
        } else {
            /* The bytes of a run's last word stand at its end, unless the run is shorter. */
            int64_t at = k < whole || p->run < 4 ? k : p->run - 4;
            for (int i = 0; i < 4; i++, at++) {
                const int is_there = at >= k && at < p->run;
                rows[i] = (transpose_row_1)v16_load_n(from + at * p->element, is_there ? count : 0);
            }
        }
        transpose_rotate_1(rows, 4, TRANSPOSE_BITS(4));
        CIRCLET_UNROLL for (int i = 3; i >= 0; i--)
            *(transpose_row_u_1 *)(to + 4 * places[i]) = rows[i];
    }
}

/* Four registers of words of channels that lie side by side, as many as a register has bytes. */
CIRCLET_INLINE void pack_conv_q8_quads(const struct pack_conv_q8_params *p, uint8_t *to,
                                       const uint8_t *from, int64_t step, const int group) {
    const int64_t whole = p->run & ~3ll, first = p->run < 4 ? 0 : p->run - 4;
    for (int64_t k = 0; k < p->run; k += 4, to += step) {
        vu8 rows[4] = {{0}}, quads[4];
        CIRCLET_UNROLL for (int i = 0; i < 4; i++) {
            int64_t at = k < whole ? k + i : first + i;
            const int is_there = k < whole || (at >= k && at < p->run);
            if (is_there) rows[i] = v_load_u8(from + at * p->element);
        }
        v_quads_u8(quads, rows[0], rows[1], rows[2], rows[3]);
        if (group == PACK_CONV_Q8_IN_ORDER) v_order_quads(quads);
        CIRCLET_UNROLL for (int i = 0; i < 4; i++) v_store_u8(to + i * CIRCLET_VBYTES, quads[i]);
    }
}

/* A block of channels that lie side by side, each of one run. */
CIRCLET_INLINE void pack_conv_q8_across(const struct pack_conv_q8_params *p, uint8_t *to,
                                        const uint8_t *from, int64_t channels, const int vectors,
                                        const int group) {
    const int64_t width = vectors * CIRCLET_LANES;
    for (int64_t channel = 0, next; channel < width; channel = next) {
        next = channel + CIRCLET_VBYTES;
        if (channel % CIRCLET_VBYTES == 0 && next <= s_min_i64(width, channels)) {
            pack_conv_q8_quads(p, to + 4 * channel, from + channel, 4 * width, group);
            continue;
        }
        next = channel + 16;
        int64_t places[4], count = s_min_i64(s_max_i64(channels - channel, 0), 16);
        /* Words that a narrow block has no place for are written where the first ones will be. */
        for (int i = 0; i < 4; i++) {
            int64_t four = channel + 4 * i;
            places[i] = pack_conv_q8_place(four < width ? four : channel, vectors, group);
        }
        pack_conv_q8_sixteen(p, to, places, from + channel, count, 4 * width);
    }
}

/* Sums of a block's weights by lanes; flips their top bits where they are unsigned. */
CIRCLET_INLINE void pack_conv_q8_sums(vi *sums, const struct pack_conv_q8_params *p, int8_t *w,
                                      const int vectors) {
    int64_t groups = (p->run + 3) / 4;
    int32_t tail = p->run & 3 ? (int32_t)pack_conv_q8_mask(p->run) : -1;
    vu8 ones = (vu8){0} + 1;
    for (int64_t row = 0; row < p->taps * groups; row++) {
        int is_last = row % groups == groups - 1;
        vi8 flip = (vi8)v_splat_i32(is_last ? p->flip & tail : p->flip);
        CIRCLET_UNROLL for (int n = 0; n < vectors; n++, w += CIRCLET_VBYTES) {
            vi8 weights = v_load_i8(w) ^ flip;
            if (p->flip) v_store_i8(w, weights);
            sums[n] = v_dot4(sums[n], ones, weights);
        }
    }
}

/* The qparams of a block: those of `from` with sums and biases added to the first row of each. */
CIRCLET_INLINE void pack_conv_q8_qparams(const struct pack_conv_q8_params *p, int32_t *to,
                                         const int32_t *from, const vi *sums, const int32_t *bias,
                                         int64_t first, const int vectors) {
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++, to += Q8_QPARAM, from += Q8_QPARAM) {
        CIRCLET_UNROLL for (int i = CIRCLET_LANES; i < Q8_QPARAM; i += CIRCLET_LANES)
            v_store_i32(to + i, v_load_i32(from + i));
        vu start = (vu)sums[n] * (uint32_t)p->factor + (vu)v_load_i32(from) + (uint32_t)p->addend;
        v_store_i32(to, (vi)start);
        for (int64_t lane = 0; bias && lane < CIRCLET_LANES; lane++) {
            int64_t place = n * CIRCLET_LANES + (lane & ~3ll);
            int64_t channel = first + pack_conv_q8_channel(place, vectors, PACK_CONV_Q8_NARROWED) +
                              (lane & 3);
            uint32_t own = channel < p->channels ? (uint32_t)bias[channel] : 0;
            to[lane] = (int32_t)((uint32_t)to[lane] + own);
        }
    }
}

/* A block of channels, each of whose runs lies side by side. */
CIRCLET_INLINE void pack_conv_q8_along(const struct pack_conv_q8_params *p, uint8_t *to,
                                       const uint8_t *from, int64_t channels, const int vectors,
                                       const int group) {
    const int64_t width = vectors * CIRCLET_LANES, rows = (p->run + 3) / 4;
    for (int64_t place = 0; place < width; place += 4) {
        int64_t channel = pack_conv_q8_channel(place, vectors, group);
        int64_t count = s_min_i64(channels - channel, 4);
        for (int64_t tap = 0; tap < p->taps; tap++)
            pack_conv_q8_run(to + (tap * rows * width + place) * 4, width * 4,
                             from + channel * p->filter + tap * p->run, p->filter, p->run, count);
    }
}

/* A block of channels of one matrix: its packed weights, and their sums by lanes. */
CIRCLET_INLINE void pack_conv_q8_block(const struct pack_conv_q8_params *p, const uint8_t *weights,
                                       uint8_t *packed, int64_t task, vi *sums, const int vectors,
                                       const int across, const int group) {
    int64_t matrix = task / p->blocks, first = task % p->blocks * vectors * CIRCLET_LANES;
    const uint8_t *from =
        weights + first * p->filter + rows_offset(matrix, p->sizes, p->matrices);
    uint8_t *to = packed + task * p->block_bytes;
    if (across) pack_conv_q8_across(p, to, from, p->channels - first, vectors, group);
    else pack_conv_q8_along(p, to, from, p->channels - first, vectors, group);
    CIRCLET_UNROLL for (int n = 0; n < vectors; n++) sums[n] = v_zero_i32();
    pack_conv_q8_sums(sums, p, (int8_t *)to, vectors);
}

/* Operands: weights, biases (or null), qparams without biases, packed weights, qparams. A task is a
 * block of channels of one matrix.
 *
 * across: Whether channels lie side by side.
 */
CIRCLET_INLINE void pack_conv_q8(const struct pack_conv_q8_params *p, void *const *operands,
                                 void *scratch, int64_t begin, int64_t end, const int vectors,
                                 const int across) {
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        vi sums[8];
        pack_conv_q8_block(p, operands[0], operands[3], task, sums, vectors, across,
                           PACK_CONV_Q8_NARROWED);
        const int64_t each = vectors * Q8_QPARAM, block = task % p->blocks;
        const int32_t *qparams = (const int32_t *)operands[2] + block * each;
        pack_conv_q8_qparams(p, (int32_t *)operands[4] + task * each, qparams, sums, operands[1],
                             block * vectors * CIRCLET_LANES, vectors);
    }
}

#endif
