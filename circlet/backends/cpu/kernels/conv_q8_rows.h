/* Rows of taps of conv_q8.h in scratch: gathered, widened, or with their top bits changed. */
#ifndef CIRCLET_CONV_Q8_ROWS_H
#define CIRCLET_CONV_Q8_ROWS_H

#include "conv_q8_gather.h"
#include "conv_q8_wide.h"

/* Copies bytes, top bits changed. */
CIRCLET_INLINE void conv_q8_flip_row(uint8_t *to, const uint8_t *from, int64_t bytes) {
    int64_t i = 0, last = bytes - CIRCLET_VBYTES;
    for (; i < last; i += CIRCLET_VBYTES) v_store_u8(to + i, v_load_u8(from + i) ^ 0x80);
    if (last >= 0) v_store_u8(to + last, v_load_u8(from + last) ^ 0x80);
    else CIRCLET_NO_UNROLL for (; i < bytes; i++) to[i] = from[i] ^ 0x80;
}

/* Bytes of a row of taps that blocks read, which are copied: pieces of pixels, or all as one. */
struct conv_q8_pieces {
    int64_t first, bytes, count;
};

CIRCLET_INLINE struct conv_q8_pieces conv_q8_pieces_of(const struct conv_q8_params *p,
                                                       int64_t block, int64_t last,
                                                       const int flip) {
    if (!(flip & CONV_Q8_GROUPS) || p->flip_pixels == 1)
        return (struct conv_q8_pieces){0, p->flip_bytes, 1};
    int64_t group = block / p->group_blocks, end = (last - 1) / p->group_blocks + 1;
    return (struct conv_q8_pieces){group * p->group_bytes, (end - group) * p->group_bytes,
                                   p->flip_pixels};
}

/* Copies the rows of taps of one row of outputs, or of a tile, to scratch, run_down elements apart:
 * gathered, top bits changed, or widened; all but the first `kept`, which are there. */
CIRCLET_INLINE void conv_q8_copy_rows(const struct conv_q8_params *p, const uint8_t *in,
                                      void *scratch, struct conv_q8_pieces pieces, int32_t kept,
                                      const int pixels, const int flip, const int run) {
    const int flips = CONV_Q8_FLIPS(flip) && !(flip & CONV_Q8_KEEP_TOPS);
    if (flip & CONV_Q8_GATHER) {
        conv_q8_gather(p, in, scratch, pixels, run, flips ? 0x80 : 0, flip & CONV_Q8_WIDE);
        return;
    }
    for (int y = kept; y < p->runs_down; y++)
        for (int64_t i = 0; i < pieces.count; i++) {
            const int64_t at = pieces.first + i * p->flip_pixel, to = y * p->run_down + at;
            const uint8_t *from = in + y * p->flip_down + at;
            if (flip & CONV_Q8_WIDE)
                conv_q8_widen_row((int16_t *)scratch + to, from, pieces.bytes, flips ? 0x80 : 0);
            else conv_q8_flip_row((uint8_t *)scratch + to, from, pieces.bytes);
        }
}

/* Makes the rows of taps of the next row of outputs those behind the others in scratch, while there
 * is room. Returns which of them is the first one; of those that are there, `kept` stay. */
CIRCLET_INLINE int32_t conv_q8_next_rows(const struct conv_q8_params *p, int32_t first,
                                         int32_t *kept) {
    int32_t next = first + p->runs_down - p->flip_kept;
    if (*kept && next + p->runs_down <= p->flip_rows) return next;
    *kept = 0;
    return 0;
}

#endif
