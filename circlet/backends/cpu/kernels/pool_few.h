/* Maxima over windows of pixels whose channels fill few registers or none.
 *
 * First over the rows of all windows of an output row, in whole registers across pixels, into a
 * line in scratch memory; then over the columns of each window, in registers of which the last may
 * reach over the pixel's channels: what it stores behind them, the next pixels replace.
 */
#ifndef CIRCLET_POOL_FEW_H
#define CIRCLET_POOL_FEW_H

#include "copy.h"

/* The windows of one output row, clamped at the edges. */
typedef struct pool_few_row {
    const char *from;         /* first row of the windows, first pixel */
    char *to;                 /* first output pixel */
    int64_t rows, row_bytes;  /* of the windows; between rows */
    int64_t in_width, out_width, channels;
    int64_t window, stride, left; /* columns of a window; between windows; before the first pixel */
} pool_few_row;

CIRCLET_INLINE vf pool_higher_f32(vf a, vf b) { return v_max(a, b); }
CIRCLET_INLINE vf pool_lower_f32(vf a, vf b) { return v_min(a, b); }
CIRCLET_INLINE vi8 pool_picked(vi8 first, vi8 a, vi8 b) { return (a & first) | (b & ~first); }
CIRCLET_INLINE vi8 pool_higher_i8(vi8 a, vi8 b) { return pool_picked((vi8)(a > b), a, b); }
CIRCLET_INLINE vi8 pool_lower_i8(vi8 a, vi8 b) { return pool_picked((vi8)(a < b), a, b); }
CIRCLET_INLINE vu8 pool_higher_u8(vu8 a, vu8 b) {
    return (vu8)pool_picked((vi8)(a > b), (vi8)a, (vi8)b);
}
CIRCLET_INLINE vu8 pool_lower_u8(vu8 a, vu8 b) {
    return (vu8)pool_picked((vi8)(a < b), (vi8)a, (vi8)b);
}

/* `line` has room for a row of the input and a register more. Rows are no shorter than a register;
 * the last step over one overlaps the step before it. */
#define POOL_FEW(name, element, vector, lowest)                                                    \
    CIRCLET_INLINE void pool_few_line_##name(const pool_few_row *p, element *line) {               \
        const int64_t lanes = sizeof(vector) / sizeof(element), count = p->in_width * p->channels; \
        for (int64_t next = 0; next < count; next += lanes) {                                      \
            int64_t at = s_min_i64(next, count - lanes);                                           \
            const char *from = p->from + at * (int64_t)sizeof(element);                            \
            vector best = (vector){0} + (element)(lowest);                                         \
            for (int64_t y = 0; y < p->rows; y++, from += p->row_bytes)                            \
                best = pool_higher_##name(*(const vector##_u *)from, best);                        \
            *(vector##_u *)(line + at) = best;                                                     \
        }                                                                                          \
    }                                                                                              \
    CIRCLET_INLINE void pool_few_##name(const pool_few_row *p, element *line, element low,         \
                                        element high) {                                            \
        const int64_t lanes = sizeof(vector) / sizeof(element), channels = p->channels;            \
        const int64_t width = p->in_width, window = p->window, stride = p->stride;                 \
        const vector lows = (vector){0} + low, highs = (vector){0} + high;                         \
        element *to = (element *)p->to;                                                            \
        int64_t room = p->out_width * channels, left = p->left;                                    \
        pool_few_line_##name(p, line);                                                             \
        for (; room > 0; room -= channels, to += channels, left += stride) {                       \
            int64_t first = s_max_i64(left, 0), last = s_min_i64(left + window, width);            \
            for (int64_t c = 0; c < channels; c += lanes) {                                        \
                const element *from = line + first * channels + c;                                 \
                vector best = (vector){0} + (element)(lowest);                                     \
                CIRCLET_NO_UNROLL for (int64_t x = first; x < last; x++, from += channels)         \
                    best = pool_higher_##name(*(const vector##_u *)from, best);                    \
                best = pool_lower_##name(highs, pool_higher_##name(lows, best));                   \
                if (CIRCLET_LIKELY(room - c >= lanes)) *(vector##_u *)(to + c) = best;             \
                else copy_run((char *)(to + c), (const char *)&best,                               \
                              (room - c) * (int64_t)sizeof(element));                              \
            }                                                                                      \
        }                                                                                          \
    }

POOL_FEW(f32, float, vf, -__builtin_inff())
POOL_FEW(i8, int8_t, vi8, INT8_MIN)
POOL_FEW(u8, uint8_t, vu8, 0)

#endif
