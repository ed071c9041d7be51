/* Arg-max of rows of 8-bit elements in two passes: the largest value, sixteen lanes at a time, then
 * the first position that holds it. Carrying positions along would need four times the register
 * width, as they do not fit 8 bits; those of rows of up to 256 elements do, where x86 finds the
 * least of 16-bit numbers: a value's complement above its position. int8 rows and arg-min change
 * bits first, so that the order is that of unsigned numbers. */
#ifndef CIRCLET_ARG_MAX_U8_H
#define CIRCLET_ARG_MAX_U8_H

#include "simd_int.h"

CIRCLET_INLINE v16u8 v16_max(v16u8 a, v16u8 b) {
    v16u8 mask = (v16u8)(a > b);
    return (mask & a) | (~mask & b);
}

CIRCLET_INLINE uint8_t v16_fold_max(v16u8 x) {
#if defined(__SSE4_1__)
    /* The least of eight complements of pairs of bytes, whose upper bytes are the lesser ones. */
    typedef CIRCLET_VECTOR(uint16_t, 16) v8u16;
    typedef short plain __attribute__((vector_size(16)));
    v16u8 most = v16_max(x, (v16u8)((v8u16)x << 8));
    v8u16 least = (v8u16)__builtin_ia32_phminposuw128((plain)~most);
    return (uint8_t)~(least[0] >> 8);
#else
    x = v16_max(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6,
                                           7));
    x = v16_max(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14,
                                           15));
    x = v16_max(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                           15));
    return x[0] > x[1] ? x[0] : x[1];
#endif
}

/* The first lane that holds `value`, or 16. */
CIRCLET_INLINE int v16_find(v16u8 x, uint8_t value) {
    v16u8 equal = (v16u8)(x == (v16u8)(value - (v16u8){0}));
#if defined(__SSE2__)
    typedef char plain __attribute__((vector_size(16)));
    return __builtin_ctz((unsigned)__builtin_ia32_pmovmskb128((plain)equal) | 1u << 16);
#else
    v16u8 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return 16 - v16_fold_max(equal & (16 - lanes));
#endif
}

/* Elements in the order of unsigned numbers once `change` is applied: 0x80 for int8, 0xff more for
 * arg-min. Lanes behind a row are 0, which is never larger than an element. */
CIRCLET_INLINE v16u8 arg_max_u8_load(const uint8_t *from, int64_t count, uint8_t change) {
    if (count >= 16) return v16_load(from) ^ change;
    v16u8 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    v16u8 inside = (v16u8)(lanes < (v16u8)((uint8_t)count - (v16u8){0}));
    return (v16_load_n(from, count) ^ change) & inside;
}

/* The largest. The last 16 of 16 or more elements overlap those before them. */
CIRCLET_INLINE uint8_t arg_max_u8_value(const uint8_t *from, int64_t count, uint8_t change) {
    v16u8 best = arg_max_u8_load(from, count, change);
    for (int64_t i = 16; i < count; i += 16)
        best = v16_max(best, arg_max_u8_load(from + s_min_i64(i, count - 16), 16, change));
    return v16_fold_max(best);
}

#if defined(__SSE4_1__) && CIRCLET_VBYTES >= 32
#define ARG_MAX_U8_PIECES (CIRCLET_VBYTES / 32) /* sixteen elements each, of a register */

/* The place of the least of a register of keys. */
CIRCLET_INLINE int32_t arg_max_u8_place(vu16 keys) {
    typedef CIRCLET_VECTOR(uint16_t, 16) v8u16;
    typedef short plain __attribute__((vector_size(16)));
    union { vu16 whole; vhu16 half[2]; } u = {keys};
    union { vhu16 whole; v8u16 part[ARG_MAX_U8_PIECES]; } h;
    vhu16 is_less = (vhu16)(u.half[0] < u.half[1]);
    h.whole = (is_less & u.half[0]) | (~is_less & u.half[1]);
    v8u16 least = h.part[0];
    CIRCLET_UNROLL for (int i = 1; i < ARG_MAX_U8_PIECES; i++) {
        v8u16 mask = (v8u16)(least < h.part[i]);
        least = (mask & least) | (~mask & h.part[i]);
    }
    return ((v8u16)__builtin_ia32_phminposuw128((plain)least))[0] & 255;
}

/* Keys of the elements from number `i` on, sixteen at a time, the last of which may overlap those
 * before them. */
CIRCLET_INLINE vu16 arg_max_u8_keys(const uint8_t *from, int64_t i, int64_t count, uint8_t change) {
    typedef CIRCLET_VECTOR(uint16_t, 32) v16u16;
    typedef CIRCLET_VECTOR(uint8_t, CIRCLET_VBYTES / 2) bytes;
    const v16u16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    union { bytes whole; v16u8 part[ARG_MAX_U8_PIECES]; } x;
    union { vu16 whole; v16u16 part[ARG_MAX_U8_PIECES]; } places;
    CIRCLET_UNROLL for (int n = 0; n < ARG_MAX_U8_PIECES; n++) {
        const int64_t at = s_min_i64(i + n * 16, count - 16);
        x.part[n] = v16_load(from + at);
        places.part[n] = lanes + (uint16_t)at;
    }
    return __builtin_convertvector(x.whole ^ (uint8_t)~change, vu16) << 8 | places.whole;
}

/* Of a row of 16 to 256 elements. */
CIRCLET_INLINE int32_t arg_max_u8_few(const uint8_t *from, int64_t count, uint8_t change) {
    vu16 least = arg_max_u8_keys(from, 0, count, change);
    for (int64_t i = CIRCLET_VBYTES / 2; i < count; i += CIRCLET_VBYTES / 2) {
        vu16 keys = arg_max_u8_keys(from, i, count, change);
        vu16 is_less = (vu16)(keys < least);
        least = (is_less & keys) | (~is_less & least);
    }
    return arg_max_u8_place(least);
}
#endif

CIRCLET_INLINE int32_t arg_max_u8(const uint8_t *from, int64_t count, uint8_t change) {
#if defined(__SSE4_1__) && CIRCLET_VBYTES >= 32
    if (count >= 16 && count <= 256) return arg_max_u8_few(from, count, change);
#endif
    uint8_t top = arg_max_u8_value(from, count, change);
    int64_t position = 0, end = s_max_i64(count - 16, 0);
    int found = v16_find(arg_max_u8_load(from, count, change), top);
    if (count <= 32) { /* without a branch that depends on the elements */
        int later = (int)end + v16_find(arg_max_u8_load(from + end, count, change), top);
        return found < 16 ? found : later;
    }
    while (found == 16) {
        position = s_min_i64(position + 16, end);
        found = v16_find(arg_max_u8_load(from + position, count, change), top);
    }
    return (int32_t)position + found;
}

#endif
