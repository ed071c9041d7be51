/* Products of stacks of float matrices whose right operand is known at run time only.
 *
 * A task is some blocks of NV * CIRCLET_LANES columns of one product: they are packed into scratch
 * memory as conv_f32.h wants its weights, then the rows go by as pixels, each tile of rows through
 * all blocks. Results are written row by row as far as the blocks reach: where sums are short, that
 * is what takes the time.
 */
#ifndef CIRCLET_MATMUL_F32_H
#define CIRCLET_MATMUL_F32_H

#include "conv_f32.h"
#include "matmul.h"
#include "pack_f32.h"
#include "stop.h"

struct matmul_f32_params {
    struct matmul_sizes size; /* its blocks are those of tasks */
    int64_t task_blocks; /* blocks of registers that a task packs, in the form MATMUL_PACKED */
    float low;  /* of results, in the form MATMUL_DOTS */
    float high; /* and at most */
};

enum matmul_f32_form { MATMUL_PACKED, MATMUL_DIRECT, MATMUL_DOTS };

CIRCLET_INLINE vf matmul_f32_load(const float *p, int64_t n) {
    return CIRCLET_LIKELY(n == CIRCLET_LANES) ? v_load(p) : v_load_n(p, n);
}

/* One block of columns of at most MR rows, read where they lie: too few rows to pack columns for.
 * `left` columns follow; the last block overlaps the one before. */
CIRCLET_INLINE void matmul_f32_direct(const struct matmul_sizes *s, const float *x, const float *y,
                                      float *out, int64_t left, const int MR, const int NV) {
    vf acc[16][8];
    int64_t back = s_min_i64(left - NV * CIRCLET_LANES, 0);
    y += back, out += back;
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_zero();
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < s->depth; k++, x += s->x_depth, y += s->y_depth) {
        vf right[8];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) right[v] = v_load(y + v * CIRCLET_LANES);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            vf left = v_splat(x[m * s->x_row]);
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                acc[m][v] = v_fma(left, right[v], acc[m][v]);
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            v_store(out + m * s->columns + v * CIRCLET_LANES, acc[m][v]);
}

/* `count` columns of MR rows where both operands have the elements of a sum next to each other:
 * sums over lanes, with a bias for each column unless it is NULL. `left` columns follow; the last
 * four overlap those before. */
CIRCLET_INLINE void matmul_f32_dots(const struct matmul_f32_params *p, const float *x,
                                    const float *y, const float *bias, float *out, int64_t count,
                                    int64_t left, const int MR) {
    const struct matmul_sizes *s = &p->size;
    for (int64_t next = 0; next < count; next += 4) {
        int64_t column = s_min_i64(next, left - 4);
        const float *from = y + column * s->y_column;
        vf acc[8][4];
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            CIRCLET_UNROLL for (int c = 0; c < 4; c++) acc[m][c] = v_zero();
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < s->depth; k += CIRCLET_LANES) {
            int64_t n = s_min_i64(s->depth - k, CIRCLET_LANES);
            vf right[4];
            CIRCLET_UNROLL for (int c = 0; c < 4; c++)
                right[c] = matmul_f32_load(from + c * s->y_column + k, n);
            CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
                vf left = matmul_f32_load(x + m * s->x_row + k, n);
                CIRCLET_UNROLL for (int c = 0; c < 4; c++)
                    acc[m][c] = v_fma(left, right[c], acc[m][c]);
            }
        }
        CIRCLET_UNROLL for (int m = 0; m < MR; m++)
            CIRCLET_UNROLL for (int c = 0; c < 4; c++) {
                float sum = v_fold_add(acc[m][c]);
                if (bias) sum += bias[column + c];
                sum = sum < p->low ? p->low : sum > p->high ? p->high : sum;
                out[m * s->columns + column + c] = sum;
            }
    }
}

/* Packs `count` columns block by block, each behind a row of zeros, and returns the blocks. */
CIRCLET_INLINE int64_t matmul_f32_pack(const struct matmul_sizes *s, float *panel, const float *y,
                                       int64_t count, const int NV) {
    const int width = NV * CIRCLET_LANES;
    int64_t blocks = 0;
    for (int64_t first = 0; first < count; first += width, blocks++) {
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) v_store(panel + v * CIRCLET_LANES, v_zero());
        pack_f32(panel + width, y + first * s->y_column, s->depth, s->y_depth, s->y_column,
                 s_min_i64(count - first, width), width);
        panel += (s->depth + 1) * width;
    }
    return blocks;
}

/* `count` columns of all rows; false where the run is to stop. */
CIRCLET_INLINE int matmul_f32_packed(const struct matmul_sizes *s, const float *x, const float *y,
                                     float *out, float *panel, int64_t count, stop_count *stop,
                                     const int MR, const int NV) {
    const int width = NV * CIRCLET_LANES;
    const int64_t blocks = matmul_f32_pack(s, panel, y, count, NV);
    const int64_t step = stop_rows(s->depth * width * blocks, MR);
    struct conv_f32_params tile = {0};
    tile.in.pixel = s->x_row, tile.out.pixel = s->columns;
    tile.tap_rows = tile.tap_runs = 1, tile.run = s->depth;
    tile.low = -__builtin_inff(), tile.high = __builtin_inff();
    for (int64_t m = 0, next; m < s->rows; m = next) {
        next = m + step;
        for (; m < s_min_i64(next, s->rows); m += MR) {
            int64_t row = s_min_i64(m, s->rows - MR);
            const float *w = panel;
            for (int64_t b = 0; b < blocks; b++, w += (s->depth + 1) * width) {
                float *to = out + row * s->columns + b * width;
                conv_f32_tile(&tile, x + row * tile.in.pixel, w, (const char *)w, to, to,
                              count - b * width, 0, MR, NV, 0, 0);
            }
        }
        if (stop_after(stop, STOP_EVERY)) return 0;
    }
    return 1;
}

/* Operands: left, right, result, circlet_stop, bias. In the form MATMUL_PACKED the left operand's
 * rows have their elements side by side; in others all rows go by at once: MR of them. */
CIRCLET_INLINE void matmul_f32(const struct matmul_f32_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int MR,
                               const int NV, const enum matmul_f32_form FORM) {
    const int64_t width = NV * CIRCLET_LANES * (FORM == MATMUL_PACKED ? p->task_blocks : 1);
    const struct matmul_sizes *s = &p->size;
    stop_count stop = stop_start(operands[3]);
    for (int64_t task = begin; task < end; task++) {
        struct matmul_place place = matmul_find(s, task, width);
        int64_t left = s->columns - place.first, count = s_min_i64(left, width);
        const float *x = (const float *)operands[0] + place.x;
        const float *y = (const float *)operands[1] + place.y;
        float *out = (float *)operands[2] + place.out;
        const float *bias = operands[4];
        if (FORM == MATMUL_PACKED) {
            if (!matmul_f32_packed(s, x, y, out, scratch, count, &stop, MR, NV)) return;
        } else if (FORM == MATMUL_DIRECT) {
            matmul_f32_direct(s, x, y, out, left, MR, NV);
        } else {
            matmul_f32_dots(p, x, y, bias ? bias + place.first : bias, out, count, left, MR);
        }
    }
}

#endif
