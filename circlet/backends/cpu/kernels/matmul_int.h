/* Products of stacks of matrices of int16; a task is one block of columns of one product.
 *
 * Both operands become int16 less their zero points, two elements of a sum side by side, in
 * scratch memory: the block of columns once, the rows a tile at a time.
 */
#ifndef CIRCLET_MATMUL_INT_H
#define CIRCLET_MATMUL_INT_H

#include "conv_q16.h"
#include "matmul.h"
#include "stop.h"

struct matmul_int_params {
    struct matmul_sizes size;
    int32_t x_zero;   /* zero points */
    int32_t y_zero;
    int32_t zero;
    int32_t low;      /* smallest result */
    int32_t high;     /* largest result */
};

#define MATMUL_INT_WIDE 1 /* 64-bit sums, rounded once (sum_int.h); one operand has 8 bits */
/* The same; both have 16 bits, so rows are split into upper and lower bytes: sums of products of 16
 * by 8 bits fit 32 for a while, and those of the upper bytes count 2^8 times. */
#define MATMUL_INT_SPLIT 2

/* `depth` elements, `step` apart, less the zero point, and a zero behind an odd number. */
CIRCLET_INLINE void matmul_int_gather(int16_t *to, const char *from, int64_t step, int64_t depth,
                                      int type, int32_t zero) {
    int64_t size = element_size(type), k = 0;
    if (step == 1)
        for (; k + CIRCLET_LANES <= depth; k += CIRCLET_LANES)
            v_narrow_i16(to + k, element_load_i32(from + k * size, CIRCLET_LANES, type) - zero);
    CIRCLET_NO_UNROLL for (; k < depth; k++)
        to[k] = (int16_t)(sum_int_element(from + k * step * size, type) - zero);
    if (depth & 1) to[depth] = 0;
}

/* A register of pairs from two rows of the right operand. */
CIRCLET_INLINE vi matmul_int_pairs(const char *first, const char *second, int64_t count, int type,
                                   int32_t zero) {
    vi a = element_load_i32(first, count, type) - zero, b = v_zero_i32();
    if (second) b = element_load_i32(second, count, type) - zero;
    return (a & 0xffff) | (vi)((vu)b << 16);
}

/* Packs `count` columns; what stands in the lanes behind them does not matter. */
CIRCLET_INLINE void matmul_int_pack(const struct matmul_int_params *p, int16_t *to, const char *y,
                                    int64_t count, int16_t *column, int type, const int NV) {
    int64_t size = element_size(type), row = p->size.y_depth * size;
    const int64_t width = NV * CIRCLET_LANES;
    if (p->size.y_column == 1) {
        for (int64_t k = 0; k < p->size.depth; k += 2, y += 2 * row, to += 2 * width)
            for (int64_t n = 0; n < count; n += CIRCLET_LANES) {
                int64_t some = s_min_i64(count - n, CIRCLET_LANES);
                const char *second = k + 1 < p->size.depth ? y + row + n * size : 0;
                vi pairs = matmul_int_pairs(y + n * size, second, some, type, p->y_zero);
                v_store_i32((int32_t *)to + n, pairs);
            }
        return;
    }
    for (int64_t n = 0; n < count; n++) {
        const int32_t *pairs = (const int32_t *)column;
        matmul_int_gather(column, y + n * p->size.y_column * size, p->size.y_depth, p->size.depth,
                          type, p->y_zero);
        CIRCLET_NO_UNROLL for (int64_t k = 0; 2 * k < p->size.depth; k++)
            ((int32_t *)to)[k * width + n] = pairs[k];
    }
}

/* Upper bytes where they are, lower bytes, as positive numbers, behind them. */
CIRCLET_INLINE void matmul_int_split(int16_t *upper, int16_t *lower, int64_t count) {
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i += 2 * CIRCLET_LANES) {
        vi16 x = *(const vi16_u *)(upper + i);
        *(vi16_u *)(lower + i) = x & 0xff;
        *(vi16_u *)(upper + i) = x >> 8;
    }
}

/* Stores a tile of 64-bit sums; `low` are those of lower bytes. */
CIRCLET_INLINE void matmul_int_store(const struct matmul_int_params *p, char *out, const wl *sums,
                                     const wl *low, const int64_t *qparam, int64_t left,
                                     const int MR, const int NV, const int form) {
    struct sum_int_bounds bounds = {p->zero, p->low, p->high};
    CIRCLET_UNROLL for (int r = 0; r < MR; r++) {
        wl total[4];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            total[v] = sums[r * NV + v];
            if (form == MATMUL_INT_SPLIT) total[v] = total[v] * 256 + low[r * NV + v];
        }
        sum_int_store_all(out + r * p->size.columns * 2, total, qparam, bounds, left, ELEMENT_I16,
                          NV, 1);
    }
}

/* Operands: left, right, qparams of the columns, result, circlet_stop.
 *
 * MR, NV: Rows and registers of columns of a tile.
 */
CIRCLET_INLINE void matmul_int(const struct matmul_int_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, int x_type, int y_type,
                               const int MR, const int NV, const int form) {
    const int width = NV * CIRCLET_LANES;
    const int64_t qparam_bytes = 8 * SUM_INT_QPARAM * width;
    int64_t size = element_size(x_type), even = (p->size.depth + 1) & ~1ll;
    int16_t *panel = scratch, *upper = panel + even * width;
    int16_t *lower = upper + MR * even + 2 * CIRCLET_LANES;
    struct conv_q16_params tile = {0};
    tile.in_pixel = tile.run = even, tile.runs_down = tile.runs_across = 1;
    const int64_t step = stop_rows(even * width, MR);
    stop_count stop = stop_start(operands[4]);
    for (int64_t task = begin; task < end; task++) {
        struct matmul_place place = matmul_find(&p->size, task, width);
        int64_t left = p->size.columns - place.first;
        const char *x = (const char *)operands[0] + place.x * size;
        const char *y = (const char *)operands[1] + place.y * element_size(y_type);
        const void *qparams = (const char *)operands[2] + place.block * qparam_bytes;
        char *out = (char *)operands[3] + place.out * size;
        matmul_int_pack(p, panel, y, s_min_i64(left, width), upper, y_type, NV);
        for (int64_t m = 0, next; m < p->size.rows; m = next) {
            next = m + step;
            for (; m < s_min_i64(next, p->size.rows); m += MR) {
                int64_t row = s_min_i64(m, p->size.rows - MR);
                for (int64_t r = 0; r < MR; r++)
                    matmul_int_gather(upper + r * even, x + (row + r) * p->size.x_row * size,
                                      p->size.x_depth, p->size.depth, x_type, p->x_zero);
                vi acc[32];
                wl sums[32], low[32];
                CIRCLET_UNROLL for (int i = 0; i < MR * NV; i++) {
                    acc[i] = v_zero_i32();
                    sums[i] = low[i] = v_splat_i64(0);
                }
                if (form == MATMUL_INT_SPLIT) {
                    matmul_int_split(upper, lower, MR * even);
                    conv_q16_product(acc, low, &tile, lower, panel, MR, NV, 1);
                }
                conv_q16_product(acc, sums, &tile, upper, panel, MR, NV, 1);
                char *to = out + row * p->size.columns * size;
                matmul_int_store(p, to, sums, low, qparams, left, MR, NV, form);
            }
            if (stop_after(&stop, STOP_EVERY)) return;
        }
    }
}

#endif
