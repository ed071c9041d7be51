/* Stores of parts of registers of bytes: nothing beside the part is touched, as it may belong to
 * another tensor, or to a row that another thread writes. */
#ifndef CIRCLET_STORES_H
#define CIRCLET_STORES_H

#include "simd_int.h"

/* The bytes of a register from `from`, a constant multiple of 4, to the next multiple of 16. */
CIRCLET_INLINE v16u8 v_piece(vu8 x, const int from) {
    union { vu8 whole; v16u8 part[CIRCLET_VBYTES / 16]; } u;
    u.whole = x;
    v16u8 piece = u.part[from / 16];
    if (from % 16) {
        CIRCLET_VECTOR(uint64_t, 16) pair = (__typeof__(pair))piece;
        if (from % 16 == 8) pair[0] = pair[1];
        else pair[0] = pair[from % 16 / 8] >> from % 8 * 8;
        piece = (v16u8)pair;
    }
    return piece;
}

/* Bytes from ... from + count - 1 of a register; both are constants, `from` a multiple of 4. */
CIRCLET_INLINE void v_store_part(uint8_t *p, vu8 x, const int from, const int count) {
    typedef CIRCLET_VECTOR(uint8_t, 32) v32;
    typedef CIRCLET_UNALIGNED(uint8_t, 32) v32_u;
    union { vu8 whole; v32 half[(CIRCLET_VBYTES + 31) / 32]; } u;
    u.whole = x;
    if (count <= 0) return;
    if (from == 0 && count >= CIRCLET_VBYTES) {
        v_store_u8(p, x);
        return;
    }
#if CIRCLET_VBYTES == 64
    if (from == 0 && count > 32 && count % 4 == 0) {
        __builtin_ia32_storedqusi512_mask((void *)p, (circlet_plain_i32)x,
                                          (unsigned short)((1u << count / 4) - 1));
        return;
    }
#endif
    int at = 0;
    if (CIRCLET_VBYTES == 64 && from % 32 == 0 && count >= 32) {
        *(v32_u *)p = u.half[from / 32];
        at = 32;
    }
    CIRCLET_UNROLL for (; at < count; at += 16)
        v16_store_n(p + at, v_piece(x, from + at), count - at < 16 ? count - at : 16);
}

/* The first n > 0 bytes, in two stores that overlap: fewer branches than one store for each bit. */
CIRCLET_INLINE void v16_store_ends(uint8_t *p, v16u8 x, int64_t n) {
    if (n >= 16) {
        *(v16u8_u *)p = x;
        return;
    }
    CIRCLET_VECTOR(uint64_t, 16) halves = (__typeof__(halves))x;
    uint64_t low = halves[0];
    if (n >= 8) {
        const int skipped = 8 * (int)(n - 8);
        uint64_t end = low >> skipped | halves[1] << 1 << (63 - skipped);
        __builtin_memcpy(p, &low, 8);
        __builtin_memcpy(p + n - 8, &end, 8);
    } else if (n >= 4) {
        uint64_t end = low >> 8 * (n - 4);
        __builtin_memcpy(p, &low, 4);
        __builtin_memcpy(p + n - 4, &end, 4);
    } else {
        p[0] = (uint8_t)low;
        if (n > 1) p[1] = (uint8_t)(low >> 8);
        if (n > 2) p[2] = (uint8_t)(low >> 16);
    }
}

/* The first `count` > 0 of `width` bytes from `from` on; only the count is not a constant. */
CIRCLET_INLINE void v_store_part_n(uint8_t *p, vu8 x, const int from, const int width,
                                   int64_t count) {
#if CIRCLET_VBYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__)
    typedef char v64 __attribute__((vector_size(64)));
    typedef char v32 __attribute__((vector_size(32)));
    typedef char v16 __attribute__((vector_size(16)));
    union { vu8 whole; v64 all; v32 half[2]; v16 part[4]; } u;
    u.whole = x;
    const uint64_t mask = ~0ull >> (64 - count);
    if (width > 32)
        __builtin_ia32_storedquqi512_mask((void *)p, u.all, mask);
    else if (width > 16)
        __builtin_ia32_storedquqi256_mask((void *)p, u.half[from / 32], (uint32_t)mask);
    else
        __builtin_ia32_storedquqi128_mask((void *)p, u.part[from / 16], (unsigned short)mask);
#else
    CIRCLET_UNROLL for (int at = 0; at < width; at += 16)
        if (count > at) v16_store_ends(p + at, v_piece(x, from + at), count - at);
#endif
}

/* Stores the first `n` of CIRCLET_LANES bytes. */
CIRCLET_INLINE void v_store_bytes(uint8_t *p, vqu8 x, int64_t n) {
    if (CIRCLET_LIKELY(n >= CIRCLET_LANES)) {
        *(vqu8_u *)p = x;
        return;
    }
    union { v16u8 wide; vqu8 low; } u = {{0}};
    u.low = x;
    v16_store_n(p, u.wide, n);
}

#endif
