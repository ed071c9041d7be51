/* Sums of two 8-bit operands: x * a + y * b + c in fixed point, a register of bytes at a time.
 *
 * Factors are pairs of int16, upper bits and 14 lower ones: one dot product of pairs (x, y) each.
 * Operands are unsigned on their way in, results signed until they are stored. Even and odd
 * elements are apart between the two, so that no bytes move to other lanes.
 */
#ifndef CIRCLET_SUM_Q8_H
#define CIRCLET_SUM_Q8_H

#include "elementwise.h"
#include "stores.h"

/* The places of parameters. */
enum {
    SUM_Q8_HEADS, /* both factors' upper bits */
    SUM_Q8_TAILS, /* both factors' lower 14 bits */
    SUM_Q8_WHOLE, /* the offset's whole part */
    SUM_Q8_FRACTION,
    SUM_Q8_SHIFT, /* at most 16 */
    SUM_Q8_LOW,
    SUM_Q8_HIGH
};

/* Bytes i ... i + n - 1 of an operand, or one for all. */
CIRCLET_INLINE vu8 sum_q8_load(const char *at, int64_t i, int64_t n, const int is_signed,
                               const int is_single) {
    const uint8_t *p = (const uint8_t *)at;
    vu8 x = is_single             ? (vu8)v_splat_i8((int8_t)*p)
            : n >= CIRCLET_VBYTES ? v_load_u8(p + i)
                                  : v_load_n_u8(p + i, n);
    return is_signed ? (vu8)(x ^ 0x80) : x;
}

CIRCLET_INLINE void sum_q8_store(char *at, vu8 x, int64_t n) {
    uint8_t *p = (uint8_t *)at;
    if (n >= CIRCLET_VBYTES) {
        v_store_u8(p, x);
        return;
    }
    v_store_part_n(p, x, 0, CIRCLET_VBYTES, n);
}

/* int16 lanes of a and b as int8, out of range to the nearest end, in the order in which x86 packs:
 * bytes 16g ... are lanes 8g ... 8g + 7 of a, then of b. */
CIRCLET_INLINE vi8 sum_q8_saturated(vi16 a, vi16 b) {
#if CIRCLET_HAS_MADD
    circlet_plain_i16 p = (circlet_plain_i16)a, q = (circlet_plain_i16)b;
#if CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi8)__builtin_ia32_packsswb512(p, q);
#elif CIRCLET_VBYTES == 64
    typedef char bytes __attribute__((vector_size(64)));
    return (vi8)__builtin_ia32_packsswb512_mask(p, q, (bytes){0}, (unsigned long long)-1);
#elif CIRCLET_VBYTES == 32
    return (vi8)__builtin_ia32_packsswb256(p, q);
#else
    return (vi8)__builtin_ia32_packsswb128(p, q);
#endif
#else
    typedef CIRCLET_VECTOR(int8_t, CIRCLET_VBYTES / 2) half;
    vi16 part[2] = {a, b};
    union { half part[2]; vi8 whole; } out;
    for (int k = 0; k < 2; k++) {
        vi16 over = part[k] > 127, under = part[k] < -128;
        part[k] = (part[k] & ~(over | under)) | (over & 127) | (under & -128);
        out.part[k] = __builtin_convertvector(part[k], half);
    }
    return out.whole;
#endif
}

/* Sums of pairs of int16, but for the offset's whole part, `SUM_Q8_SHIFT` bits up. */
CIRCLET_INLINE vi sum_q8_pairs(const elementwise_values *v, vu16 pairs) {
    vi16 heads = (vi16)v_splat_i32(v->ints[SUM_Q8_HEADS]);
    vi16 tails = (vi16)v_splat_i32(v->ints[SUM_Q8_TAILS]);
    vi tail = v_dot2(v_splat_i32(v->ints[SUM_Q8_FRACTION]), (vi16)pairs, tails);
    return v_dot2(tail >> 14, (vi16)pairs, heads);
}

/* Sums of x0 x1 y0 y1 in every four bytes. */
CIRCLET_INLINE vi16 sum_q8_words(const elementwise_values *v, vu8 bytes) {
    vu even = (vu)sum_q8_pairs(v, (vu16)bytes & 0xff);
    vu odd = (vu)sum_q8_pairs(v, (vu16)bytes >> 8);
    even >>= (uint32_t)v->ints[SUM_Q8_SHIFT];
    odd <<= 16 - (uint32_t)v->ints[SUM_Q8_SHIFT];
    return (vi16)((even & 0xffff) | (odd & 0xffff0000)) + (int16_t)v->ints[SUM_Q8_WHOLE];
}

CIRCLET_INLINE vi8 sum_q8_bytes(const elementwise_values *v, vu8 x, vu8 y, const int is_bounded) {
    vi8 sums = sum_q8_saturated(sum_q8_words(v, v_zip_low_u16((vu16)x, (vu16)y)),
                                sum_q8_words(v, v_zip_high_u16((vu16)x, (vu16)y)));
    if (!is_bounded) return sums;
    vi8 least = v_splat_i8((int8_t)v->ints[SUM_Q8_LOW]);
    vi8 most = v_splat_i8((int8_t)v->ints[SUM_Q8_HIGH]);
    return v_min_i8(v_max_i8(sums, least), most);
}

/* A row function over operands x and y, each of them a row or one byte; results are as signed as
 * they are. */
#define SUM_Q8_ROW(name, is_signed, single_x, single_y, is_bounded)                          \
    CIRCLET_INLINE void name##_part(const elementwise_values *v, char *const *at, int64_t i, \
                                    int64_t n) {                                             \
        vu8 x = sum_q8_load(at[0], i, n, is_signed, single_x);                               \
        vu8 y = sum_q8_load(at[1], i, n, is_signed, single_y);                               \
        vu8 sums = (vu8)sum_q8_bytes(v, x, y, is_bounded);                                   \
        sum_q8_store(at[2] + i, is_signed ? sums : (vu8)(sums ^ 0x80), n);                   \
    }                                                                                        \
    CIRCLET_INLINE void name(const elementwise_values *v, char *const *at, int64_t begin,    \
                             int64_t end) {                                                  \
        int64_t i = begin;                                                                   \
        for (; i + CIRCLET_VBYTES <= end; i += CIRCLET_VBYTES)                               \
            name##_part(v, at, i, CIRCLET_VBYTES);                                           \
        if (i < end) name##_part(v, at, i, end - i);                                         \
    }

#endif
