/* Sums of products of neighbouring bytes and int16: by four, by two, and by the lane of a register.
 *
 * v_dot4 multiplies activation bytes by int8 weights. The activations are unsigned everywhere but
 * where CIRCLET_DOT_SIGNED says otherwise (64-bit Arm); callers flip the top bit to convert.
 */
#ifndef CIRCLET_DOT_H
#define CIRCLET_DOT_H

#include "simd.h"

#if defined(__aarch64__)
#define CIRCLET_DOT_SIGNED 1
#else
#define CIRCLET_DOT_SIGNED 0
#endif
#if defined(__AVX512VNNI__)
#define CIRCLET_HAS_DOT4 1
#elif CIRCLET_VBYTES == 32 && defined(__AVXVNNI__)
#define CIRCLET_HAS_DOT4 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define CIRCLET_HAS_DOT4 1
#else
#define CIRCLET_HAS_DOT4 0
#endif
#if (CIRCLET_VBYTES == 64 && defined(__AVX512BW__)) || \
    (CIRCLET_VBYTES == 32 && defined(__AVX2__)) || (CIRCLET_VBYTES == 16 && defined(__SSE2__))
#define CIRCLET_HAS_MADD 1
#else
#define CIRCLET_HAS_MADD 0
#endif

/* Products of unsigned with signed bytes, two of them added in 16 bits, where no dot product is. */
#if !CIRCLET_HAS_DOT4 && CIRCLET_HAS_MADD && defined(__SSSE3__)
#define CIRCLET_HAS_PAIRS 1
#else
#define CIRCLET_HAS_PAIRS 0
#endif

typedef int32_t circlet_plain_i32 __attribute__((vector_size(CIRCLET_VBYTES)));
typedef int16_t circlet_plain_i16 __attribute__((vector_size(CIRCLET_VBYTES)));
typedef CIRCLET_VECTOR(uint64_t, CIRCLET_VBYTES) vul;
typedef CIRCLET_VECTOR(double, CIRCLET_VBYTES) vd;
typedef CIRCLET_VECTOR(int32_t, CIRCLET_VBYTES / 2) vhi;
typedef CIRCLET_VECTOR(uint8_t, 16) v16u8;
typedef CIRCLET_VECTOR(int32_t, 16) v4i32;
typedef CIRCLET_VECTOR(uint32_t, 16) v4u32;
typedef CIRCLET_UNALIGNED(uint8_t, 16) v16u8_u;
typedef CIRCLET_UNALIGNED(double, CIRCLET_VBYTES) vd_u;

/* a0 * b0 + a1 * b1 of neighbouring int16 lanes (pmaddwd). Only four times -32768 leaves int32. */
CIRCLET_INLINE vi v_madd_i16(vi16 a, vi16 b) {
#if CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi)__builtin_ia32_pmaddwd512((circlet_plain_i16)a, (circlet_plain_i16)b);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 64
    circlet_plain_i32 none = {0};
    return (vi)__builtin_ia32_pmaddwd512_mask((circlet_plain_i16)a, (circlet_plain_i16)b, none,
                                              (unsigned short)-1);
#elif CIRCLET_HAS_MADD && CIRCLET_VBYTES == 32
    return (vi)__builtin_ia32_pmaddwd256((circlet_plain_i16)a, (circlet_plain_i16)b);
#elif CIRCLET_HAS_MADD
    return (vi)__builtin_ia32_pmaddwd128((circlet_plain_i16)a, (circlet_plain_i16)b);
#else
    vi x = (vi)a, y = (vi)b;
    return (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
}

/* acc + a * b of four lanes, the first or the last: products of int16 that widen (SMLAL). */
#if CIRCLET_VBYTES == 16
CIRCLET_INLINE vi v_mla_i16(vi acc, vi16 a, vi16 b, const int high) {
    union { vi16 v; vhi16 half[2]; } x = {a}, y = {b};
    return acc + __builtin_convertvector(x.half[high], vi) * __builtin_convertvector(y.half[high], vi);
}
#endif

#if CIRCLET_HAS_PAIRS
/* data0 * weights0 + data1 * weights1 of neighbouring bytes (pmaddubsw). Nothing leaves int16 where
 * neither the weights above zero nor those below add up to more than 128: 128 * 255 is 32640. */
CIRCLET_INLINE vi16 v_pairs(vu8 data, vi8 weights) {
    typedef char plain __attribute__((vector_size(CIRCLET_VBYTES)));
#if CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi16)__builtin_ia32_pmaddubsw512((plain)data, (plain)weights);
#elif CIRCLET_VBYTES == 64
    return (vi16)__builtin_ia32_pmaddubsw512_mask((plain)data, (plain)weights,
                                                  (circlet_plain_i16){0}, (unsigned)-1);
#elif CIRCLET_VBYTES == 32
    return (vi16)__builtin_ia32_pmaddubsw256((plain)data, (plain)weights);
#else
    return (vi16)__builtin_ia32_pmaddubsw128((plain)data, (plain)weights);
#endif
}

/* acc + neighbouring int16 added. */
CIRCLET_INLINE vi v_add_pairs(vi acc, vi16 x) { return acc + v_madd_i16(x, (vi16){0} + 1); }
#endif

/* acc + the sum over each lane's four bytes of data * weights. Without a dot product
 * instruction, pmaddwd over even and over odd bytes: pmaddubsw would saturate sums of two
 * products at 16 bits. */
CIRCLET_INLINE vi v_dot4(vi acc, vu8 data, vi8 weights) {
#if CIRCLET_DOT_SIGNED && !CIRCLET_HAS_DOT4
    vi16 first, last;
    vi low, high;
    __asm__("smull %0.8h, %1.8b, %2.8b" : "=w"(first) : "w"(data), "w"(weights));
    __asm__("smull2 %0.8h, %1.16b, %2.16b" : "=w"(last) : "w"(data), "w"(weights));
    __asm__("saddlp %0.4s, %1.8h" : "=w"(low) : "w"(first));
    __asm__("saddlp %0.4s, %1.8h" : "=w"(high) : "w"(last));
    __asm__("addp %0.4s, %0.4s, %1.4s" : "+w"(low) : "w"(high));
    return acc + low;
#elif !CIRCLET_HAS_DOT4
    vi16 d_even = (vi16)data & 0xff, d_odd = (vi16)((vu16)data >> 8);
    vi16 w_even = (vi16)weights << 8 >> 8, w_odd = (vi16)weights >> 8;
    return acc + v_madd_i16(d_even, w_even) + v_madd_i16(d_odd, w_odd);
#elif CIRCLET_DOT_SIGNED
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(data), "w"(weights));
    return acc;
#else
    circlet_plain_i32 a = (circlet_plain_i32)acc, d = (circlet_plain_i32)data,
                      w = (circlet_plain_i32)weights;
#if defined(__clang__) && CIRCLET_VBYTES == 64
    return (vi)__builtin_ia32_vpdpbusd512(a, d, w);
#elif defined(__clang__)
    return (vi)__builtin_ia32_vpdpbusd256(a, d, w);
#elif CIRCLET_VBYTES == 64
    return (vi)__builtin_ia32_vpdpbusd_v16si(a, d, w);
#else
    return (vi)__builtin_ia32_vpdpbusd_v8si(a, d, w);
#endif
#endif
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
/* v_dot4 of activations that are unsigned. */
CIRCLET_INLINE vi v_dot4_unsigned(vi acc, vu8 data, vi8 weights) {
    __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(data), "w"(weights));
    return acc;
}
#else
#define v_dot4_unsigned v_dot4
#endif

/* 64-bit Arm multiplies by the four bytes of one lane. */
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define CIRCLET_HAS_DOT4_LANE 1

#define V_DOT4_OF_LANE(op, lane) \
    __asm__(op " %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(weights), "w"(data))
#define V_DOT4_BY_LANE(op)                     \
    if (lane == 0) V_DOT4_OF_LANE(op, 0);      \
    else if (lane == 1) V_DOT4_OF_LANE(op, 1); \
    else if (lane == 2) V_DOT4_OF_LANE(op, 2); \
    else V_DOT4_OF_LANE(op, 3)

/* acc + a register of weights times the four bytes of a lane. */
CIRCLET_INLINE vi v_dot4_lane(vi acc, vu8 data, vi8 weights, const int lane) {
    V_DOT4_BY_LANE("sdot");
    return acc;
}
#if defined(__ARM_FEATURE_MATMUL_INT8)
/* The same of activations that are unsigned. */
CIRCLET_INLINE vi v_dot4_unsigned_lane(vi acc, vu8 data, vi8 weights, const int lane) {
    V_DOT4_BY_LANE("sudot");
    return acc;
}
#else
#define v_dot4_unsigned_lane v_dot4_lane
#endif
#else
#define CIRCLET_HAS_DOT4_LANE 0
#endif

#define CIRCLET_HAS_DOT2 (CIRCLET_HAS_DOT4 && !CIRCLET_DOT_SIGNED)

/* acc + the sum over each lane's two int16 of data * weights, modulo 2^32. Compilers would make two
 * instructions of the one of 64 bytes. */
CIRCLET_INLINE vi v_dot2(vi acc, vi16 data, vi16 weights) {
#if CIRCLET_HAS_DOT2 && CIRCLET_VBYTES == 64
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(data), "v"(weights));
    return acc;
#elif CIRCLET_HAS_DOT2 && defined(__clang__)
    circlet_plain_i16 d = (circlet_plain_i16)data, w = (circlet_plain_i16)weights;
    return (vi)__builtin_ia32_vpdpwssd256((circlet_plain_i32)acc, d, w);
#else
    return (vi)((vu)acc + (vu)v_madd_i16(data, weights));
#endif
}

/* The same with two int16 in memory as the data of all lanes: loads that are part of the
 * instruction take no time of their own. */
CIRCLET_INLINE vi v_dot2_splat(vi acc, const int16_t *data, vi16 weights) {
    typedef CIRCLET_UNALIGNED(int32_t, 4) pair;
#if CIRCLET_HAS_DOT2 && CIRCLET_VBYTES == 64
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(weights), "m"(*(const pair *)data));
    return acc;
#else
    return v_dot2(acc, (vi16)v_splat_i32((*(const pair *)data)[0]), weights);
#endif
}

#endif
