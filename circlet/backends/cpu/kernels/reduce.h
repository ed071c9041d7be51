/* Means, sums, products, maxima and minima over any axes.
 *
 * Float sums run in several chains that are then added, for speed and because errors grow with the
 * length of a chain. Their order follows from sizes and the width of registers, never from how
 * tasks are dealt to threads. Integers are exact in any order: int32 addition is associative.
 */
#ifndef CIRCLET_REDUCE_H
#define CIRCLET_REDUCE_H

#include "fixed.h"
#include "element.h"
#include "rows.h"
#include "simd_int.h"

enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD };

#define REDUCE_TASK 128 /* kept elements of a task */
#define REDUCE_BLOCK 64 /* elements of a partial sum; 64 of 8 bits fit 16 bits */
#define REDUCE_WIDE 8   /* vectors of kept elements that are reduced together */
#define REDUCE_LONG (16 * CIRCLET_LANES) /* elements from which on four chains are faster */

struct reduce_params {
    int64_t rows;          /* of kept outer elements */
    int64_t rows_per_task; /* where the inner axis is reduced */
    int64_t inner;         /* kept elements that are contiguous in the source */
    int64_t sizes[6];      /* kept outer sizes */
    int64_t source[7];     /* strides of the kept axes, bytes */
    int64_t reduced[4];    /* sizes of the reduced axes */
    int64_t steps[4];      /* their strides, bytes */
    float elements;        /* number of elements behind each result */
    int32_t centre;        /* zero point of the source times the elements */
    int32_t multiplier;    /* to the result's scale */
    int32_t shift;         /* before the multiplication, or after it where it is below 0 */
    int32_t zero;          /* zero point of the result */
    int32_t low;           /* of the result's type */
    int32_t high;          /* of the result's type */
};

/* Runs of the last reduced axis, and where run `index` starts. */
CIRCLET_INLINE int64_t reduce_runs(const struct reduce_params *p) {
    return p->reduced[0] * p->reduced[1] * p->reduced[2];
}
CIRCLET_INLINE int64_t reduce_offset(const struct reduce_params *p, int64_t index) {
    int64_t c = index % p->reduced[2], b = index / p->reduced[2] % p->reduced[1];
    int64_t a = index / p->reduced[2] / p->reduced[1];
    return a * p->steps[0] + b * p->steps[1] + c * p->steps[2];
}

CIRCLET_FOLD(reduce_fold_mul, float, vf, a * b)
CIRCLET_FOLD(reduce_fold_mul_i32, int32_t, vi, (vi)((vu)a * (vu)b))

CIRCLET_INLINE vf reduce_start_f32(int kind) {
    float infinity = __builtin_inff();
    return v_splat(kind == REDUCE_MAX    ? -infinity
                   : kind == REDUCE_MIN  ? infinity
                   : kind == REDUCE_PROD ? 1.0f
                                         : 0.0f);
}
CIRCLET_INLINE vi reduce_start_i32(int kind) {
    return v_splat_i32(kind == REDUCE_MAX    ? INT32_MIN
                       : kind == REDUCE_MIN  ? INT32_MAX
                       : kind == REDUCE_PROD ? 1
                                             : 0);
}
CIRCLET_INLINE vf reduce_join_f32(vf a, vf b, int kind) {
    if (kind == REDUCE_MAX) return v_max(b, a);
    if (kind == REDUCE_MIN) return v_min(b, a);
    if (kind == REDUCE_PROD) return a * b;
    return a + b;
}
CIRCLET_INLINE vi reduce_join_i32(vi a, vi b, int kind) {
    if (kind == REDUCE_MAX) return v_max_i32(a, b);
    if (kind == REDUCE_MIN) return v_min_i32(a, b);
    if (kind == REDUCE_PROD) return a * b;
    return a + b;
}
CIRCLET_INLINE float reduce_fold_f32(vf v, int kind) {
    if (kind == REDUCE_MAX) return v_fold_max(v);
    if (kind == REDUCE_MIN) return v_fold_min(v);
    if (kind == REDUCE_PROD) return reduce_fold_mul(v);
    return v_fold_add(v);
}
CIRCLET_INLINE int32_t reduce_fold_i32(vi v, int kind) {
    if (kind == REDUCE_MAX) return v_fold_max_i32(v);
    if (kind == REDUCE_MIN) return v_fold_min_i32(v);
    if (kind == REDUCE_PROD) return reduce_fold_mul_i32(v);
    return v_fold_add_i32(v);
}

CIRCLET_INLINE void reduce_store_f32(const struct reduce_params *p, char *to, vf v, int64_t n,
                                     int kind) {
    if (kind == REDUCE_MEAN) v /= v_splat(p->elements);
    element_store_f32(to, v, n);
}

CIRCLET_INLINE void reduce_store_i32(const struct reduce_params *p, char *to, vi v, int64_t n,
                                     int type, int requantises) {
    if (requantises) {
        v = v_scale_all(v - v_splat_i32(p->centre), p->multiplier, p->shift);
        v = v_clamp_i32(v + v_splat_i32(p->zero), v_splat_i32(p->low), v_splat_i32(p->high));
    }
    element_store_i32(to, v, n, type);
}

typedef CIRCLET_UNALIGNED(int8_t, CIRCLET_VBYTES / 2) reduce_half_i8;
typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES / 2) reduce_half_u8;

/* 8-bit elements in the order of int8: those of uint8 have their top bits changed. */
CIRCLET_INLINE vi8 reduce_ordered(vu8 x, int type) {
    return (vi8)(x ^ (uint8_t)(type == ELEMENT_U8 ? 0x80 : 0));
}
CIRCLET_INLINE vi8 reduce_join_i8(vi8 a, vi8 b, int kind) {
    return kind == REDUCE_MAX ? v_max_i8(a, b) : v_min_i8(a, b);
}

/* A register of 8-bit elements, ordered, into four registers of lanes. */
CIRCLET_INLINE void reduce_widen(vi8 best, vi *s, int kind, int type) {
    union { vi8 whole; vqi8 part[4]; } u = {best};
    CIRCLET_UNROLL for (int r = 0; r < 4; r++) {
        vi v = __builtin_convertvector(u.part[r], vi);
        s[r] = reduce_join_i32(s[r], v + (type == ELEMENT_U8 ? 128 : 0), kind);
    }
}

/* Sums of a register of 8-bit elements over at most REDUCE_BLOCK positions: they fit 16 bits. */
CIRCLET_INLINE void reduce_sum_8bit(const struct reduce_params *p, const char *from, int64_t first,
                                     int64_t last, vi *s, int type) {
    vi16 half[2] = {{0}, {0}};
    for (int64_t i = first; i < last; i++) {
        const char *at = from + i * p->steps[3];
        CIRCLET_UNROLL for (int h = 0; h < 2; h++, at += CIRCLET_VBYTES / 2)
            if (type == ELEMENT_U8)
                half[h] += __builtin_convertvector(*(const reduce_half_u8 *)at, vi16);
            else half[h] += __builtin_convertvector(*(const reduce_half_i8 *)at, vi16);
    }
    CIRCLET_UNROLL for (int h = 0; h < 2; h++) {
        union { vi16 whole; vhi16 part[2]; } u = {half[h]};
        CIRCLET_UNROLL for (int r = 0; r < 2; r++)
            s[2 * h + r] += __builtin_convertvector(u.part[r], vi);
    }
}

/* A register of kept 8-bit elements over the reduced axes. */
CIRCLET_INLINE void reduce_8bit(const struct reduce_params *p, const char *from, char *to,
                                 int kind, int type, int requantises) {
    vi s[4];
    CIRCLET_UNROLL for (int r = 0; r < 4; r++) s[r] = reduce_start_i32(kind);
    for (int64_t run = 0; run < reduce_runs(p); run++) {
        const char *at = from + reduce_offset(p, run);
        if (kind == REDUCE_MAX || kind == REDUCE_MIN) {
            vi8 best = reduce_ordered(v_load_u8((const uint8_t *)at), type);
            for (int64_t i = 1; i < p->reduced[3]; i++) {
                vu8 x = v_load_u8((const uint8_t *)at + i * p->steps[3]);
                best = reduce_join_i8(best, reduce_ordered(x, type), kind);
            }
            reduce_widen(best, s, kind, type);
            continue;
        }
        for (int64_t i = 0; i < p->reduced[3]; i += REDUCE_BLOCK)
            reduce_sum_8bit(p, at, i, s_min_i64(i + REDUCE_BLOCK, p->reduced[3]), s, type);
    }
    CIRCLET_UNROLL for (int r = 0; r < 4; r++)
        reduce_store_i32(p, to + r * CIRCLET_LANES, s[r], CIRCLET_LANES, type, requantises);
}

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

/* Contiguous 8-bit elements into the lanes of `s`, as many as fill whole registers; returns
 * their number. Sums are dot products with ones, whose int8 operand takes 128 off each uint8:
 * four in each lane of a register, 512, which is added back. */
CIRCLET_INLINE int64_t reduce_along_8bit(const char *from, int64_t count, vi *s, int kind,
                                          int type) {
    int64_t i = CIRCLET_VBYTES;
    if (count < CIRCLET_VBYTES) return 0;
    vu8 x = v_load_u8((const uint8_t *)from);
    if (kind == REDUCE_MAX || kind == REDUCE_MIN) {
        vi8 best = reduce_ordered(x, type);
        vi parts[4] = {*s, *s, *s, *s};
        for (; i + CIRCLET_VBYTES <= count; i += CIRCLET_VBYTES) {
            x = v_load_u8((const uint8_t *)from + i);
            best = reduce_join_i8(best, reduce_ordered(x, type), kind);
        }
        reduce_widen(best, parts, kind, type);
        *s = reduce_join_i32(reduce_join_i32(parts[0], parts[1], kind),
                             reduce_join_i32(parts[2], parts[3], kind), kind);
        return i;
    }
    const vu8 ones = (vu8){0} + 1;
    vi sum = v_dot4(*s, ones, reduce_ordered(x, type)), more[4] = {{0}, {0}, {0}, {0}};
    for (; i + 4 * CIRCLET_VBYTES <= count; i += 4 * CIRCLET_VBYTES) {
        CIRCLET_UNROLL for (int u = 0; u < 4; u++) {
            x = v_load_u8((const uint8_t *)from + i + u * CIRCLET_VBYTES);
            more[u] = v_dot4(more[u], ones, reduce_ordered(x, type));
        }
    }
    sum += (more[0] + more[1]) + (more[2] + more[3]);
    for (; i + CIRCLET_VBYTES <= count; i += CIRCLET_VBYTES)
        sum = v_dot4(sum, ones, reduce_ordered(v_load_u8((const uint8_t *)from + i), type));
    *s = sum + (int32_t)(type == ELEMENT_U8 ? i / CIRCLET_VBYTES * 512 : 0);
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
