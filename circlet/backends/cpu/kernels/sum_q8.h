/* Sums of two 8-bit operands: x * a + y * b + c in fixed point, a register of bytes at a time.
 *
 * Factors are pairs of int16, the upper and the lower 15 bits: one dot product of pairs (x, y) each.
 * Operands are unsigned on their way in, results signed until they are stored.
 */
#ifndef CIRCLET_SUM_Q8_H
#define CIRCLET_SUM_Q8_H

#include "elementwise.h"
#include "simd_int.h"

/* The places of parameters. */
enum {
    SUM_Q8_HEADS, /* both factors' upper bits */
    SUM_Q8_TAILS, /* both factors' lower 15 bits */
    SUM_Q8_OFFSET_HEAD,
    SUM_Q8_OFFSET_TAIL,
    SUM_Q8_SHIFT,
    SUM_Q8_LOW,
    SUM_Q8_HIGH
};

/* Bytes i ... i + n - 1 of an operand, or one for all. */
CIRCLET_INLINE vu8 sum_q8_load(const char *at, int64_t i, int64_t n, const int is_signed,
                               const int is_single) {
    const uint8_t *p = (const uint8_t *)at;
    union { vu8 whole; v16u8 part[CIRCLET_VBYTES / 16]; } u = {{0}};
    if (is_single) {
        u.whole = (vu8)v_splat_i8((int8_t)*p);
    } else if (n >= CIRCLET_VBYTES) {
        u.whole = v_load_u8(p + i);
    } else {
        CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 16)
            u.part[k / 16] = v16_load_n(p + i + k, n - k);
    }
    return is_signed ? u.whole ^ 0x80 : u.whole;
}

CIRCLET_INLINE void sum_q8_store(char *at, vu8 x, int64_t n) {
    uint8_t *p = (uint8_t *)at;
    if (n >= CIRCLET_VBYTES) {
        v_store_u8(p, x);
        return;
    }
    union { vu8 whole; v16u8 part[CIRCLET_VBYTES / 16]; } u = {x};
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 16) v16_store_n(p + k, u.part[k / 16], n - k);
}

/* Sums of pairs of int16. */
CIRCLET_INLINE vi sum_q8_of(const elementwise_values *v, vu16 pairs) {
    const int32_t *c = v->ints;
    vi16 xy = (vi16)pairs, heads = (vi16)v_splat_i32(c[SUM_Q8_HEADS]),
         tails = (vi16)v_splat_i32(c[SUM_Q8_TAILS]);
    vi tail = v_dot2(v_splat_i32(c[SUM_Q8_OFFSET_TAIL]), xy, tails) >> 15;
    vi head = v_dot2(v_splat_i32(c[SUM_Q8_OFFSET_HEAD]), xy, heads);
    return (head + tail) >> c[SUM_Q8_SHIFT];
}

CIRCLET_INLINE vi8 sum_q8_bytes(const elementwise_values *v, vu8 x, vu8 y) {
    const vu8 none = {0};
    vu8 low = (vu8)v_zip_low_u8(x, y), high = (vu8)v_zip_high_u8(x, y);
    vi8 sums = v_saturate_4_i8(
        sum_q8_of(v, v_zip_low_u8(low, none)), sum_q8_of(v, v_zip_high_u8(low, none)),
        sum_q8_of(v, v_zip_low_u8(high, none)), sum_q8_of(v, v_zip_high_u8(high, none)));
    vi8 least = v_splat_i8((int8_t)v->ints[SUM_Q8_LOW]);
    vi8 most = v_splat_i8((int8_t)v->ints[SUM_Q8_HIGH]);
    return v_min_i8(v_max_i8(sums, least), most);
}

/* A row function over operands x and y, each of them a row or one byte. */
#define SUM_Q8_ROW(name, is_signed, single_x, single_y, stores_signed)                       \
    CIRCLET_INLINE void name##_part(const elementwise_values *v, char *const *at, int64_t i, \
                                    int64_t n) {                                             \
        vu8 x = sum_q8_load(at[0], i, n, is_signed, single_x);                               \
        vu8 y = sum_q8_load(at[1], i, n, is_signed, single_y);                               \
        vu8 sums = (vu8)sum_q8_bytes(v, x, y);                                               \
        sum_q8_store(at[2] + i, stores_signed ? sums : sums ^ 0x80, n);                      \
    }                                                                                        \
    CIRCLET_INLINE void name(const elementwise_values *v, char *const *at, int64_t begin,    \
                             int64_t end) {                                                  \
        int64_t i = begin;                                                                   \
        for (; i + CIRCLET_VBYTES <= end; i += CIRCLET_VBYTES)                               \
            name##_part(v, at, i, CIRCLET_VBYTES);                                           \
        if (i < end) name##_part(v, at, i, end - i);                                         \
    }

#endif
