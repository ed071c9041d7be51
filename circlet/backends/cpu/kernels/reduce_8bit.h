/* Reductions of 8-bit elements by whole registers of them: maxima and minima stay 8 bits wide,
 * sums are widened as late as they fit. */
#ifndef CIRCLET_REDUCE_8BIT_H
#define CIRCLET_REDUCE_8BIT_H

#include "reduction.h"

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

#endif
