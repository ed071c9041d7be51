/* Means, sums, products, maxima and minima over any axes.
 *
 * Float sums run in several chains, for speed and since errors grow with the length of a chain.
 * Their order follows from sizes and the width of registers, never from how tasks are dealt to
 * threads.
 */
#ifndef CIRCLET_REDUCE_H
#define CIRCLET_REDUCE_H

#include "reduce_8bit.h"
#include "reduce_few.h"

#define REDUCE_TASK 128 /* kept elements of a task */
#define REDUCE_WIDE 8   /* vectors of kept elements that are reduced together */
#define REDUCE_LONG (16 * CIRCLET_LANES) /* elements from which on four chains are faster */

/* `registers` vectors of kept elements over the last reduced axis from `first` to `last`. */
CIRCLET_INLINE void reduce_strip(const struct reduce_params *p, const char *from, int64_t first,
                                 int64_t last, int64_t n, vf *f, vi *s, int kind, int type,
                                 int registers) {
    int64_t bytes = CIRCLET_LANES * element_size(type);
    for (int64_t i = first; i < last; i++) {
        const char *at = from + i * p->steps[3];
        CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
            if (type == ELEMENT_F32)
                f[r] = reduce_join_f32(f[r], element_load_f32(at + r * bytes, n, type), kind);
            else s[r] = reduce_join_i32(s[r], element_load_i32(at + r * bytes, n, type), kind);
        }
    }
}

/* Vectors of kept elements: the reduced axes are walked with all of them in registers. */
CIRCLET_INLINE void reduce_across(const struct reduce_params *p, const char *from, char *to,
                                  int64_t n, int kind, int type, int requantises, int registers) {
    vf f[REDUCE_WIDE], part[REDUCE_WIDE];
    vi s[REDUCE_WIDE];
    int64_t bytes = CIRCLET_LANES * element_size(type);
    CIRCLET_UNROLL for (int r = 0; r < registers; r++)
        f[r] = reduce_start_f32(kind), s[r] = reduce_start_i32(kind);
    for (int64_t run = 0; run < reduce_runs(p); run++)
        for (int64_t i = 0; i < p->reduced[3]; i += REDUCE_BLOCK) {
            CIRCLET_UNROLL for (int r = 0; r < registers; r++) part[r] = reduce_start_f32(kind);
            reduce_strip(p, from + reduce_offset(p, run), i,
                         s_min_i64(i + REDUCE_BLOCK, p->reduced[3]), n, part, s, kind, type,
                         registers);
            CIRCLET_UNROLL for (int r = 0; r < registers; r++)
                f[r] = reduce_join_f32(f[r], part[r], kind);
        }
    CIRCLET_UNROLL for (int r = 0; r < registers; r++) {
        if (type == ELEMENT_F32) reduce_store_f32(p, to + r * bytes, f[r], n, kind);
        else reduce_store_i32(p, to + r * bytes, s[r], n, type, requantises);
    }
}

/* The inner axis is kept; a task is REDUCE_TASK elements of it. */
CIRCLET_INLINE void reduce_outer(const struct reduce_params *p, void *const *x, int64_t begin,
                                 int64_t end, int kind, int type, int requantises) {
    int64_t size = element_size(type), blocks = (p->inner + REDUCE_TASK - 1) / REDUCE_TASK;
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / blocks, i = task % blocks * REDUCE_TASK;
        int64_t last = s_min_i64(i + REDUCE_TASK, p->inner);
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->source);
        char *to = (char *)x[1] + row * p->inner * size;
        if (reduce_keeps_few(p, type)) {
            reduce_few(p, from, to, kind, type, requantises);
            continue;
        }
        for (; size == 1 && kind != REDUCE_PROD && i + CIRCLET_VBYTES <= last; i += CIRCLET_VBYTES)
            reduce_8bit(p, from + i, to + i, kind, type, requantises);
        for (; i + REDUCE_WIDE * CIRCLET_LANES <= last; i += REDUCE_WIDE * CIRCLET_LANES)
            reduce_across(p, from + i * size, to + i * size, CIRCLET_LANES, kind, type,
                          requantises, REDUCE_WIDE);
        for (; i + 4 * CIRCLET_LANES <= last; i += 4 * CIRCLET_LANES)
            reduce_across(p, from + i * size, to + i * size, CIRCLET_LANES, kind, type,
                          requantises, 4);
        for (; i + CIRCLET_LANES <= last; i += CIRCLET_LANES)
            reduce_across(p, from + i * size, to + i * size, CIRCLET_LANES, kind, type,
                          requantises, 1);
        if (i < last)
            reduce_across(p, from + i * size, to + i * size, last - i, kind, type, requantises, 1);
    }
}

/* Contiguous floats into the lanes of `f`, as many as fill whole sets of vectors; returns their
 * number. The sets' chains of operations overlap. */
CIRCLET_INLINE int64_t reduce_sets(const float *from, int64_t count, vf *f, int kind) {
    vf part[4];
    int64_t i = 0;
    if (count < REDUCE_LONG) return 0;
    CIRCLET_UNROLL for (int u = 0; u < 4; u++) part[u] = reduce_start_f32(kind);
    for (; i + 4 * CIRCLET_LANES <= count; i += 4 * CIRCLET_LANES)
        CIRCLET_UNROLL for (int u = 0; u < 4; u++)
            part[u] = reduce_join_f32(part[u], v_load(from + i + u * CIRCLET_LANES), kind);
    part[0] = reduce_join_f32(part[0], part[1], kind);
    part[2] = reduce_join_f32(part[2], part[3], kind);
    *f = reduce_join_f32(*f, reduce_join_f32(part[0], part[2], kind), kind);
    return i;
}

/* Contiguous elements into the lanes of `f` or `s`. */
CIRCLET_INLINE void reduce_along(const char *from, int64_t count, vf *f, vi *s, int kind,
                                 int type) {
    int64_t size = element_size(type), i = 0;
    if (type == ELEMENT_F32) i = reduce_sets((const float *)from, count, f, kind);
    else if (size == 1 && kind != REDUCE_PROD) i = reduce_along_8bit(from, count, s, kind, type);
    for (; i < count; i += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, count - i);
        if (type == ELEMENT_F32) {
            vf v = n < CIRCLET_LANES ? v_select(v_lane_mask(n),
                                                element_load_f32(from + i * size, n, type),
                                                reduce_start_f32(kind))
                                     : v_load((const float *)from + i);
            *f = reduce_join_f32(*f, v, kind);
        } else {
            vi v = element_load_i32(from + i * size, n, type);
            if (n < CIRCLET_LANES)
                v = v_select_i32(v_lane_mask(n), v, reduce_start_i32(kind));
            *s = reduce_join_i32(*s, v, kind);
        }
    }
}

/* All reduced axes into the lanes of `f` or `s`. */
CIRCLET_INLINE void reduce_lanes(const struct reduce_params *p, const char *from, vf *f, vi *s,
                                 int kind, int type) {
    *f = reduce_start_f32(kind), *s = reduce_start_i32(kind);
    reduce_along(from, p->reduced[3], f, s, kind, type);
    for (int64_t run = 1; run < reduce_runs(p); run++)
        reduce_along(from + reduce_offset(p, run), p->reduced[3], f, s, kind, type);
}

/* Of two vectors whose lanes are to be joined with those that differ in bit `n` of their number:
 * lanes of `a` where the bit is 0, of `b` where it is 1, and the lanes to join them with. */
#if CIRCLET_LANES == 16
#define REDUCE_EACH(m, n)                                                                      \
    m(0, n), m(1, n), m(2, n), m(3, n), m(4, n), m(5, n), m(6, n), m(7, n), m(8, n), m(9, n),  \
        m(10, n), m(11, n), m(12, n), m(13, n), m(14, n), m(15, n)
#elif CIRCLET_LANES == 8
#define REDUCE_EACH(m, n) \
    m(0, n), m(1, n), m(2, n), m(3, n), m(4, n), m(5, n), m(6, n), m(7, n)
#else
#define REDUCE_EACH(m, n) m(0, n), m(1, n), m(2, n), m(3, n)
#endif
#define REDUCE_OWN(l, n) (((l) & (n)) ? CIRCLET_LANES : 0) + (l)
#define REDUCE_OTHER(l, n) (((l) & (n)) ? CIRCLET_LANES : 0) + ((l) ^ (n))
#define REDUCE_HALVE(v, n, join)                                                                \
    CIRCLET_UNROLL for (int r = 0; r < (n); r++)                                                \
        v[r] = join(__builtin_shufflevector(v[r], v[r + (n)], REDUCE_EACH(REDUCE_OWN, n)),      \
                    __builtin_shufflevector(v[r], v[r + (n)], REDUCE_EACH(REDUCE_OTHER, n)), kind);
#define REDUCE_FOLD_ROWS(v, join)                         \
    do {                                                  \
        if (CIRCLET_LANES > 8) REDUCE_HALVE(v, 8 % CIRCLET_LANES, join) \
        if (CIRCLET_LANES > 4) REDUCE_HALVE(v, 4 % CIRCLET_LANES, join) \
        REDUCE_HALVE(v, 2, join)                          \
        REDUCE_HALVE(v, 1, join)                          \
    } while (0)

/* As many results as a vector has lanes, of rows `step` bytes apart: their lanes are folded
 * together, in the order in which one row's are. */
CIRCLET_INLINE void reduce_rows(const struct reduce_params *p, const char *from, int64_t step,
                                char *to, int kind, int type, int requantises) {
    vf f[CIRCLET_LANES];
    vi s[CIRCLET_LANES];
    const int is_short = type == ELEMENT_F32 && p->reduced[3] < CIRCLET_LANES && reduce_runs(p) == 1;
    const vi inside = v_lane_mask(p->reduced[3]);
    CIRCLET_NO_UNROLL for (int r = 0; r < CIRCLET_LANES; r++) {
        const char *at = from + r * step;
        if (is_short)
            f[r] = v_select(inside, v_load_n((const float *)at, p->reduced[3]),
                            reduce_start_f32(kind));
        else reduce_lanes(p, at, &f[r], &s[r], kind, type);
    }
    if (type == ELEMENT_F32) {
        REDUCE_FOLD_ROWS(f, reduce_join_f32);
        reduce_store_f32(p, to, f[0], CIRCLET_LANES, kind);
    } else {
        REDUCE_FOLD_ROWS(s, reduce_join_i32);
        reduce_store_i32(p, to, s[0], CIRCLET_LANES, type, requantises);
    }
}

/* One result from all reduced axes. */
CIRCLET_INLINE void reduce_one(const struct reduce_params *p, const char *from, char *to, int kind,
                               int type, int requantises) {
    vf f;
    vi s;
    reduce_lanes(p, from, &f, &s, kind, type);
    if (type == ELEMENT_F32) {
        reduce_store_f32(p, to, v_splat(reduce_fold_f32(f, kind)), 1, kind);
    } else {
        reduce_store_i32(p, to, v_splat_i32(reduce_fold_i32(s, kind)), 1, type, requantises);
    }
}

/* The inner axis is reduced and contiguous. */
CIRCLET_INLINE void reduce_inner(const struct reduce_params *p, void *const *x, int64_t begin,
                                 int64_t end, int kind, int type, int requantises) {
    const int64_t last = s_min_i64(end * p->rows_per_task, p->rows), step = p->source[5];
    for (int64_t row = begin * p->rows_per_task, run; row < last; row += run) {
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->source);
        char *to = (char *)x[1] + row * element_size(type);
        int64_t i = 0;
        run = rows_run(row, last, p->sizes);
        for (; i + CIRCLET_LANES <= run; i += CIRCLET_LANES)
            reduce_rows(p, from + i * step, step, to + i * element_size(type), kind, type,
                        requantises);
        for (; i < run; i++)
            reduce_one(p, from + i * step, to + i * element_size(type), kind, type, requantises);
    }
}

/* Operands: source, result. */
CIRCLET_INLINE void reduce(const struct reduce_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end, int kind, int type, int requantises,
                           int inner_is_reduced) {
    (void)scratch;
    if (inner_is_reduced) reduce_inner(p, x, begin, end, kind, type, requantises);
    else reduce_outer(p, x, begin, end, kind, type, requantises);
}

#endif
