/* int16 vectors in fixed point: rounded products, saturating sums, and the way from int32 and back. */
#ifndef CIRCLET_SIMD_I16_H
#define CIRCLET_SIMD_I16_H

#include "simd_int.h"

CIRCLET_INLINE vi16 v_splat_i16(int16_t x) { return x - (vi16){0}; }
CIRCLET_INLINE vi16 v_select_i16(vi16 mask, vi16 a, vi16 b) { return (mask & a) | (~mask & b); }
CIRCLET_INLINE vi16 v_min_i16(vi16 a, vi16 b) { return v_select_i16(a < b, a, b); }

/* a * b >> 15, rounded to nearest, halves up; not both may be -32768. */
CIRCLET_INLINE vi16 v_mul_q15(vi16 a, vi16 b) {
    typedef circlet_plain_i16 plain;
#if CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi16)__builtin_ia32_pmulhrsw512((plain)a, (plain)b);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64
    return (vi16)__builtin_ia32_pmulhrsw512_mask((plain)a, (plain)b, (plain){0}, (unsigned)-1);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 32
    return (vi16)__builtin_ia32_pmulhrsw256((plain)a, (plain)b);
#elif CIRCLET_HAS_MADD && defined(__SSSE3__)
    return (vi16)__builtin_ia32_pmulhrsw128((plain)a, (plain)b);
#elif defined(__aarch64__)
    plain r;
    __asm__("sqrdmulh %0.8h, %1.8h, %2.8h" : "=w"(r) : "w"(a), "w"(b));
    return (vi16)r;
#else
    typedef CIRCLET_VECTOR(int32_t, 2 * CIRCLET_VBYTES) wide;
    wide product = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide);
    return __builtin_convertvector((product + 16384) >> 15, vi16);
#endif
}

/* Sums beyond int16 become the nearest end of it. */
CIRCLET_INLINE vi16 v_saturating_add_i16(vi16 a, vi16 b) {
#if defined(__clang__)
    return __builtin_elementwise_add_sat(a, b);
#else
    vi16 sum = a + b, is_beyond = ((a ^ sum) & (b ^ sum)) < 0;
    return v_select_i16(is_beyond, (a >> 15) ^ 32767, sum);
#endif
}

/* Two registers of int32 lanes, out of range to the nearest end, in the order in which x86 packs:
 * lanes 8g ... are lanes 4g ... 4g + 3 of a, and of b. */
CIRCLET_INLINE vi16 v_saturate_2_i16(vi a, vi b) {
    circlet_plain_i32 p = (circlet_plain_i32)a, q = (circlet_plain_i32)b;
#if CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi16)__builtin_ia32_packssdw512(p, q);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64
    return (vi16)__builtin_ia32_packssdw512_mask(p, q, (circlet_plain_i16){0}, (unsigned)-1);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 32
    return (vi16)__builtin_ia32_packssdw256(p, q);
#elif CIRCLET_HAS_MADD
    return (vi16)__builtin_ia32_packssdw128(p, q);
#elif defined(__aarch64__)
    vi16 out;
    __asm__("sqxtn %0.4h, %1.4s" : "=w"(out) : "w"(p));
    __asm__("sqxtn2 %0.8h, %1.4s" : "+w"(out) : "w"(q));
    return out;
#else
    vi low = v_splat_i32(-32768), high = v_splat_i32(32767);
    union { vhi16 half[2]; vi16 whole; } u;
    u.half[0] = __builtin_convertvector(v_clamp_i32(a, low, high), vhi16);
    u.half[1] = __builtin_convertvector(v_clamp_i32(b, low, high), vhi16);
    return u.whole;
#endif
}

/* The first or the second of the two registers that v_saturate_2_i16 made one of. */
CIRCLET_INLINE vi v_unpack_i16(vi16 x, const int second) {
    vu8 twice = second ? v_zip_high_u16((vu16)x, (vu16)x) : v_zip_low_u16((vu16)x, (vu16)x);
    return (vi)twice >> 16;
}

#endif
