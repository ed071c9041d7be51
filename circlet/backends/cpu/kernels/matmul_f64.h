/* Products of stacks of matrices of doubles; a task is one block of columns of one product.
 *
 * Columns are packed ahead, or into scratch memory, or read where they lie side by side and few rows
 * meet them. Results are alpha times the sums, plus beta times an addend if there is one.
 */
#ifndef CIRCLET_MATMUL_F64_H
#define CIRCLET_MATMUL_F64_H

#include "matmul.h"
#include "simd_int.h"
#include "stop.h"

struct matmul_f64_params {
    struct matmul_sizes size;
    int64_t add_row;    /* elements of the addend between rows; 0 where they share one */
    int64_t add_column; /* and between columns: 1 or 0 */
    double alpha;
    double beta;
};

#define MATMUL_F64_LANES (CIRCLET_LANES / 2)

/* Up to a whole register; zeros behind. */
CIRCLET_INLINE vd matmul_f64_load(const double *from, int64_t count) {
    union { vd all; double each[MATMUL_F64_LANES]; } u = {{0}};
    if (CIRCLET_LIKELY(count >= MATMUL_F64_LANES)) return v_load_f64(from);
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i++) u.each[i] = from[i];
    return u.all;
}

CIRCLET_INLINE void matmul_f64_store(double *to, vd x, int64_t count) {
    union { vd all; double each[MATMUL_F64_LANES]; } u = {x};
    if (CIRCLET_LIKELY(count >= MATMUL_F64_LANES)) *(vd_u *)to = x;
    else CIRCLET_NO_UNROLL for (int64_t i = 0; i < count; i++) to[i] = u.each[i];
}

/* `count` columns, zeros behind them up to a whole block. */
CIRCLET_INLINE void matmul_f64_pack(const struct matmul_sizes *s, double *panel, const double *y,
                                    int64_t count, const int NV) {
    const int64_t width = NV * MATMUL_F64_LANES;
    if (s->y_column == 1) {
        for (int64_t k = 0; k < s->depth; k++)
            for (int64_t n = 0; n < width; n += MATMUL_F64_LANES)
                *(vd *)(panel + k * width + n) =
                    matmul_f64_load(y + k * s->y_depth + n, s_max_i64(count - n, 0));
        return;
    }
    for (int64_t n = 0; n < width; n++) {
        const double *column = y + n * s->y_column;
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < s->depth; k++)
            panel[k * width + n] = n < count ? column[k * s->y_depth] : 0;
    }
}

/* MR rows of a block, `count` columns of which exist; right elements of a sum are `step` apart. */
CIRCLET_INLINE void matmul_f64_tile(const struct matmul_f64_params *p, const double *x,
                                    const double *panel, int64_t step, double *out,
                                    const double *add, int64_t count, const int MR, const int NV) {
    const struct matmul_sizes *s = &p->size;
    vd acc[14][8];
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) acc[m][v] = v_splat_f64(0);
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < s->depth; k++, x += s->x_depth, panel += step) {
        vd right[8];
        CIRCLET_UNROLL for (int v = 0; v < NV; v++)
            right[v] = v_load_f64(panel + v * MATMUL_F64_LANES);
        CIRCLET_UNROLL for (int m = 0; m < MR; m++) {
            vd left = v_splat_f64(x[m * s->x_row]);
            CIRCLET_UNROLL for (int v = 0; v < NV; v++)
                acc[m][v] = v_fma_f64(left, right[v], acc[m][v]);
        }
    }
    CIRCLET_UNROLL for (int m = 0; m < MR; m++)
        CIRCLET_UNROLL for (int v = 0; v < NV; v++) {
            int64_t first = v * MATMUL_F64_LANES, left = count - first;
            if (left <= 0) continue;
            vd made = acc[m][v] * p->alpha;
            const double *from = add + m * p->add_row + first * p->add_column;
            if (add)
                made += p->beta * (p->add_column ? matmul_f64_load(from, left) : v_splat_f64(*from));
            matmul_f64_store(out + m * s->columns + first, made, left);
        }
}

/* Operands: left, right, result, addend (or null), circlet_stop.
 *
 * MR, NV: Rows, of which there are as many, and registers of columns of a tile.
 * packed: Whether the right operand is: in blocks of columns, zeros behind the last.
 */
CIRCLET_INLINE void matmul_f64(const struct matmul_f64_params *p, void *const *operands,
                               void *scratch, int64_t begin, int64_t end, const int MR,
                               const int NV, const int packed) {
    const int64_t width = NV * MATMUL_F64_LANES;
    const struct matmul_sizes *s = &p->size;
    const int in_place = !packed && s->y_column == 1 && s->rows <= 2 * MR && s->columns >= width;
    const int64_t rows = stop_rows(s->depth * width, MR);
    stop_count stop = stop_start(operands[4]);
    for (int64_t task = begin; task < end; task++) {
        struct matmul_place place = matmul_find(s, task, width);
        int64_t left = s->columns - place.first, back = in_place ? s_min_i64(left - width, 0) : 0;
        const double *x = (const double *)operands[0] + place.x;
        const double *y = (const double *)operands[1] + place.y + back, *panel = y;
        double *out = (double *)operands[2] + place.out + back;
        const double *add = operands[3];
        if (add) add += (place.first + back) * p->add_column;
        if (!packed && !in_place) matmul_f64_pack(s, scratch, y, left, NV), panel = scratch;
        for (int64_t m = 0, next; m < s->rows; m = next) {
            next = m + rows;
            for (; m < s_min_i64(next, s->rows); m += MR) {
                int64_t row = s_min_i64(m, s->rows - MR);
                matmul_f64_tile(p, x + row * s->x_row, panel, in_place ? s->y_depth : width,
                                out + row * s->columns, add ? add + row * p->add_row : add,
                                left - back, MR, NV);
            }
            if (stop_after(&stop, STOP_EVERY)) return;
        }
    }
}

#endif
