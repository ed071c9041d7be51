/* Integer vectors for 8-bit kernels: dot products (dot.h), wide products, splats, narrowing. */
#ifndef CIRCLET_SIMD_INT_H
#define CIRCLET_SIMD_INT_H

#include "dot.h"

/* Within every 16 bytes, those at the given places; zeros where a place has its top bit (PSHUFB). */
#if (CIRCLET_VBYTES == 64 && defined(__AVX512BW__)) || \
    (CIRCLET_VBYTES == 32 && defined(__AVX2__)) || (CIRCLET_VBYTES == 16 && defined(__SSSE3__))
CIRCLET_INLINE vu8 v_shuffle_u8(vu8 x, vu8 places) {
    typedef char plain __attribute__((vector_size(CIRCLET_VBYTES)));
#if CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vu8)__builtin_ia32_pshufb512((plain)x, (plain)places);
#elif CIRCLET_VBYTES == 64
    return (vu8)__builtin_ia32_pshufb512_mask((plain)x, (plain)places, (plain){0},
                                              (unsigned long long)-1);
#elif CIRCLET_VBYTES == 32
    return (vu8)__builtin_ia32_pshufb256((plain)x, (plain)places);
#else
    return (vu8)__builtin_ia32_pshufb128((plain)x, (plain)places);
#endif
}
#endif

/* Signed 64-bit products of the even int32 lanes: shifted left and back, they are sign-extended in
 * place, which compilers know as one pmuldq. */
CIRCLET_INLINE vl v_mul_even(vi a, vi b) {
    return ((vl)a << 32 >> 32) * ((vl)b << 32 >> 32);
}

/* acc + the sums of four neighbouring bytes each, those left out whose `which` is 0 and not 1. */
CIRCLET_INLINE v4i32 v16_sum_4(v4i32 acc, v16u8 data, v16u8 which) {
#if defined(__clang__) && \
    ((defined(__AVX512VNNI__) && defined(__AVX512VL__)) || defined(__AVXVNNI__))
    typedef int plain __attribute__((vector_size(16)));
    return (v4i32)__builtin_ia32_vpdpbusd128((plain)acc, (plain)data, (plain)which);
#else
    typedef CIRCLET_VECTOR(uint16_t, 16) v8u16;
    v8u16 bytes = (v8u16)(data & -which), pairs = (bytes & 0xff) + (bytes >> 8);
    return acc + (v4i32)(((v4u32)pairs & 0xffff) + ((v4u32)pairs >> 16));
#endif
}

CIRCLET_INLINE vi v_splat_first(v4i32 x) { return v_splat_i32(x[0]); }
/* One lane, a constant, in every lane. */
CIRCLET_INLINE vi v_splat_lane(vi x, const int lane) { return v_splat_i32(x[lane]); }

/* Four bytes in every lane. */
CIRCLET_INLINE vu8 v_splat_4u8(const uint8_t *p) {
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return (vu8)v_splat_i32(x);
}

/* The first n < 4 bytes in every lane, zeros behind them. */
CIRCLET_INLINE vu8 v_splat_nu8(const uint8_t *p, int n) {
    uint32_t x = p[0];
    if (n > 1) x |= (uint32_t)p[1] << 8;
    if (n > 2) x |= (uint32_t)p[2] << 16;
    return (vu8)v_splat_i32((int32_t)x);
}

CIRCLET_INLINE vi8 v_splat_i8(int8_t x) { return x - (vi8){0}; }
CIRCLET_INLINE vi8 v_max_i8(vi8 a, vi8 b) {
    vi8 mask = a > b;
    return (mask & a) | (~mask & b);
}
CIRCLET_INLINE vi8 v_min_i8(vi8 a, vi8 b) {
    vi8 mask = a < b;
    return (mask & a) | (~mask & b);
}

/* Changes the top bits of bytes just splat. Compilers would change them before, and then splat from
 * a register; `late` keeps them from that, which keeps busy the ports that packing needs. */
CIRCLET_INLINE vu8 v_flip_splat(vu8 x, const int late) {
#if CIRCLET_VBYTES == 64
    if (late) __asm__("" : "+v"(x));
#endif
    (void)late;
    return x ^ 0x80;
}

CIRCLET_INLINE v16u8 v16_load(const uint8_t *p) { return *(const v16u8_u *)p; }

/* The first n <= 16 bytes; nothing behind them is touched, as it may lie beyond the last page.
 * Pieces of 8, 4, 2 and 1 by the bits of n, without a loop. */
CIRCLET_INLINE v16u8 v16_load_n(const uint8_t *p, int64_t n) {
    uint64_t part[2] = {0, 0};
    if (n >= 16) return v16_load(p);
    int at = n >= 8;
    if (n & 8) __builtin_memcpy(&part[0], p, 8), p += 8;
    unsigned shift = 0;
    uint32_t four = 0;
    uint16_t two = 0;
    if (n & 4) __builtin_memcpy(&four, p, 4), p += 4, part[at] = four, shift = 32;
    if (n & 2) __builtin_memcpy(&two, p, 2), p += 2, part[at] |= (uint64_t)two << shift, shift += 16;
    if (n & 1) part[at] |= (uint64_t)*p << shift;
    return (v16u8)(__attribute__((vector_size(16))) uint64_t){part[0], part[1]};
}

CIRCLET_INLINE void v16_store_n(uint8_t *p, v16u8 x, int64_t n) {
    if (n >= 16) {
        *(v16u8_u *)p = x;
        return;
    }
    typedef uint64_t pair __attribute__((vector_size(16)));
    uint64_t part = ((pair)x)[0];
    if (n & 8) __builtin_memcpy(p, &part, 8), p += 8, part = ((pair)x)[1];
    if (n & 4) __builtin_memcpy(p, &part, 4), p += 4, part >>= 32;
    if (n & 2) __builtin_memcpy(p, &part, 2), p += 2, part >>= 16;
    if (n & 1) *p = (uint8_t)part;
}

/* The first n <= CIRCLET_VBYTES bytes, zeros behind them; nothing else is touched. */
CIRCLET_INLINE vu8 v_load_n_u8(const uint8_t *p, int64_t n) {
#if CIRCLET_VBYTES == 64 && defined(__AVX512BW__)
    typedef char plain __attribute__((vector_size(64)));
    const uint64_t mask = n >= 64 ? ~0ull : (1ull << n) - 1;
    return (vu8)__builtin_ia32_loaddquqi512_mask((const void *)p, (plain){0}, mask);
#else
    union { vu8 whole; v16u8 part[CIRCLET_VBYTES / 16]; } u = {{0}};
    CIRCLET_NO_UNROLL for (int64_t k = 0; k < n; k += 16)
        u.part[k / 16] = v16_load_n(p + k, n - k);
    return u.whole;
#endif
}

/* int32 lanes as int8, out of range to the nearest end. */
CIRCLET_INLINE vqi8 v_saturate_i8(vi x) {
#if CIRCLET_VBYTES == 64
    typedef char plain __attribute__((vector_size(16)));
    return (vqi8)__builtin_ia32_pmovsdb512_mask((circlet_plain_i32)x, (plain){0},
                                                (unsigned short)-1);
#elif defined(__SSE2__)
    typedef int plain_i32 __attribute__((vector_size(16)));
    typedef short plain_i16 __attribute__((vector_size(16)));
    union { vi whole; plain_i32 part[CIRCLET_LANES / 4]; } u = {x};
    plain_i16 words = __builtin_ia32_packssdw128(u.part[0], u.part[CIRCLET_LANES / 4 - 1]);
    union { v16u8 whole; vqi8 part[64 / CIRCLET_VBYTES]; } bytes;
    bytes.whole = (v16u8)__builtin_ia32_packsswb128(words, words);
    return bytes.part[0];
#else
    return __builtin_convertvector(v_clamp_i32(x, v_splat_i32(-128), v_splat_i32(127)), vqi8);
#endif
}

/* Bytes, or pairs of bytes, of a and b in turn, from the lower or upper half of each 16 bytes. */
#define CIRCLET_ZIP4(o, n) \
    (o), (o) + (n), (o) + 1, (o) + (n) + 1, (o) + 2, (o) + (n) + 2, (o) + 3, (o) + (n) + 3
#define CIRCLET_ZIP8(o, n) CIRCLET_ZIP4(o, n), CIRCLET_ZIP4((o) + 4, n)
#if CIRCLET_VBYTES == 64
#define CIRCLET_ZIP_BYTES(o) \
    CIRCLET_ZIP8(o, 64), CIRCLET_ZIP8(16 + o, 64), CIRCLET_ZIP8(32 + o, 64), CIRCLET_ZIP8(48 + o, 64)
#define CIRCLET_ZIP_PAIRS(o) \
    CIRCLET_ZIP4(o, 32), CIRCLET_ZIP4(8 + o, 32), CIRCLET_ZIP4(16 + o, 32), CIRCLET_ZIP4(24 + o, 32)
#elif CIRCLET_VBYTES == 32
#define CIRCLET_ZIP_BYTES(o) CIRCLET_ZIP8(o, 32), CIRCLET_ZIP8(16 + o, 32)
#define CIRCLET_ZIP_PAIRS(o) CIRCLET_ZIP4(o, 16), CIRCLET_ZIP4(8 + o, 16)
#else
#define CIRCLET_ZIP_BYTES(o) CIRCLET_ZIP8(o, 16)
#define CIRCLET_ZIP_PAIRS(o) CIRCLET_ZIP4(o, 8)
#endif
CIRCLET_INLINE vu16 v_zip_low_u8(vu8 a, vu8 b) {
    return (vu16)__builtin_shufflevector(a, b, CIRCLET_ZIP_BYTES(0));
}
CIRCLET_INLINE vu16 v_zip_high_u8(vu8 a, vu8 b) {
    return (vu16)__builtin_shufflevector(a, b, CIRCLET_ZIP_BYTES(8));
}
CIRCLET_INLINE vu8 v_zip_low_u16(vu16 a, vu16 b) {
    return (vu8)__builtin_shufflevector(a, b, CIRCLET_ZIP_PAIRS(0));
}
CIRCLET_INLINE vu8 v_zip_high_u16(vu16 a, vu16 b) {
    return (vu8)__builtin_shufflevector(a, b, CIRCLET_ZIP_PAIRS(4));
}
/* The bytes from the first on, each `n` times side by side: n is a power of two, and where that is
 * as many as there are bytes, or more, all are the first. */
CIRCLET_INLINE v16u8 v16_repeat(v16u8 x, const int n) {
    if (n >= 16) return x[0] - (v16u8){0};
    CIRCLET_UNROLL for (int times = 1; times < n; times *= 2)
        x = __builtin_shufflevector(x, x, CIRCLET_ZIP8(0, 0));
    return x;
}
/* `count` bytes, at most 16, that repeat those in memory so; nothing behind these is touched. */
CIRCLET_INLINE v16u8 v16_load_repeated(const uint8_t *p, const int count, const int n) {
    return v16_repeat(v16_load_n(p, (count + n - 1) / n), n);
}
#if CIRCLET_VBYTES == 64
#define CIRCLET_TWICE_BYTES \
    CIRCLET_ZIP8(0, 0), CIRCLET_ZIP8(8, 0), CIRCLET_ZIP8(16, 0), CIRCLET_ZIP8(24, 0)
#elif CIRCLET_VBYTES == 32
#define CIRCLET_TWICE_BYTES CIRCLET_ZIP8(0, 0), CIRCLET_ZIP8(8, 0)
#else
#define CIRCLET_TWICE_BYTES CIRCLET_ZIP8(0, 0)
#endif
/* The same of a register. Compilers would look for ways to join its shuffles with those behind
 * them, for minutes where these meet the same bytes several times. */
CIRCLET_INLINE vu8 v_load_repeated_u8(const uint8_t *p, const int n) {
    if (n == 1) return v_load_u8(p);
    if (n >= CIRCLET_VBYTES) return *p - (vu8){0};
    vu8 x = {0};
    __builtin_memcpy(&x, p, CIRCLET_VBYTES / (size_t)n);
    CIRCLET_UNROLL for (int times = 1; times < n; times *= 2)
        x = __builtin_shufflevector(x, x, CIRCLET_TWICE_BYTES);
#if CIRCLET_VBYTES == 64
    __asm__("" : "+v"(x));
#elif CIRCLET_VBYTES == 32
    __asm__("" : "+x"(x));
#endif
    return x;
}

/* Four rows as quads: four bytes of each column side by side. Lanes of 128 bits stay where they are,
 * so that register i has columns 4i to 4i + 3 of every sixteen. */
CIRCLET_INLINE void v_quads_u8(vu8 *quads, vu8 a, vu8 b, vu8 c, vu8 d) {
    vu16 ab = v_zip_low_u8(a, b), cd = v_zip_low_u8(c, d);
    vu16 ab_high = v_zip_high_u8(a, b), cd_high = v_zip_high_u8(c, d);
    quads[0] = v_zip_low_u16(ab, cd);
    quads[1] = v_zip_high_u16(ab, cd);
    quads[2] = v_zip_low_u16(ab_high, cd_high);
    quads[3] = v_zip_high_u16(ab_high, cd_high);
}
/* The same with columns in order: register i has those from i times its number of quads on. */
CIRCLET_INLINE void v_order_quads(vu8 *quads) {
#if CIRCLET_VBYTES == 64
    vl q[4], low[2], high[2];
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) q[i] = (vl)quads[i];
    CIRCLET_UNROLL for (int i = 0; i < 2; i++) {
        low[i] = __builtin_shufflevector(q[2 * i], q[2 * i + 1], 0, 1, 8, 9, 2, 3, 10, 11);
        high[i] = __builtin_shufflevector(q[2 * i], q[2 * i + 1], 4, 5, 12, 13, 6, 7, 14, 15);
    }
    quads[0] = (vu8)__builtin_shufflevector(low[0], low[1], 0, 1, 2, 3, 8, 9, 10, 11);
    quads[1] = (vu8)__builtin_shufflevector(low[0], low[1], 4, 5, 6, 7, 12, 13, 14, 15);
    quads[2] = (vu8)__builtin_shufflevector(high[0], high[1], 0, 1, 2, 3, 8, 9, 10, 11);
    quads[3] = (vu8)__builtin_shufflevector(high[0], high[1], 4, 5, 6, 7, 12, 13, 14, 15);
#elif CIRCLET_VBYTES == 32
    vl q[4];
    CIRCLET_UNROLL for (int i = 0; i < 4; i++) q[i] = (vl)quads[i];
    CIRCLET_UNROLL for (int i = 0; i < 2; i++) {
        quads[i] = (vu8)__builtin_shufflevector(q[2 * i], q[2 * i + 1], 0, 1, 4, 5);
        quads[i + 2] = (vu8)__builtin_shufflevector(q[2 * i], q[2 * i + 1], 2, 3, 6, 7);
    }
#else
    (void)quads;
#endif
}

/* Four registers of int32 lanes as int8, out of range to the nearest end, in the order in which
 * x86 packs: bytes 16g ... are lanes 4g ... 4g + 3 of a, of b, of c, of d. */
CIRCLET_INLINE vi8 v_saturate_4_i8(vi a, vi b, vi c, vi d) {
#if defined(__aarch64__)
    vi16 first, last;
    vi8 out;
    __asm__("sqxtn %0.4h, %1.4s" : "=w"(first) : "w"(a));
    __asm__("sqxtn2 %0.8h, %1.4s" : "+w"(first) : "w"(b));
    __asm__("sqxtn %0.4h, %1.4s" : "=w"(last) : "w"(c));
    __asm__("sqxtn2 %0.8h, %1.4s" : "+w"(last) : "w"(d));
    __asm__("sqxtn %0.8b, %1.8h" : "=w"(out) : "w"(first));
    __asm__("sqxtn2 %0.16b, %1.8h" : "+w"(out) : "w"(last));
    return out;
#elif CIRCLET_HAS_MADD
    circlet_plain_i32 p = (circlet_plain_i32)a, q = (circlet_plain_i32)b,
                      r = (circlet_plain_i32)c, s = (circlet_plain_i32)d;
#if CIRCLET_VBYTES == 64 && defined(__clang__)
    return (vi8)__builtin_ia32_packsswb512(__builtin_ia32_packssdw512(p, q),
                                           __builtin_ia32_packssdw512(r, s));
#elif CIRCLET_VBYTES == 64
    typedef short words __attribute__((vector_size(64)));
    typedef char bytes __attribute__((vector_size(64)));
    words none = {0}, low = __builtin_ia32_packssdw512_mask(p, q, none, (unsigned)-1),
          high = __builtin_ia32_packssdw512_mask(r, s, none, (unsigned)-1);
    return (vi8)__builtin_ia32_packsswb512_mask(low, high, (bytes){0}, (unsigned long long)-1);
#elif CIRCLET_VBYTES == 32
    return (vi8)__builtin_ia32_packsswb256(__builtin_ia32_packssdw256(p, q),
                                           __builtin_ia32_packssdw256(r, s));
#else
    return (vi8)__builtin_ia32_packsswb128(__builtin_ia32_packssdw128(p, q),
                                           __builtin_ia32_packssdw128(r, s));
#endif
#else
    vqi8 part[4] = {v_saturate_i8(a), v_saturate_i8(b), v_saturate_i8(c), v_saturate_i8(d)};
    vi8 out;
    __builtin_memcpy(&out, part, sizeof out);
    return out;
#endif
}

/* What v_saturate_4_i8 made of `vectors` registers of each of 4 / vectors pixels (three of one):
 * the bytes of each pixel side by side. */
CIRCLET_INLINE vu8 v_ungroup(vu8 x, const int vectors) {
#if CIRCLET_VBYTES == 64
    vi d = (vi)x;
    if (vectors == 3)
        d = __builtin_shufflevector(d, d, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    if (vectors == 2)
        d = __builtin_shufflevector(d, d, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    if (vectors == 1)
        d = __builtin_shufflevector(d, d, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return (vu8)d;
#elif CIRCLET_VBYTES == 32
    vi d = (vi)x;
    if (vectors == 3) d = __builtin_shufflevector(d, d, 0, 1, 2, 4, 5, 6, 3, 7);
    if (vectors == 2) d = __builtin_shufflevector(d, d, 0, 1, 4, 5, 2, 3, 6, 7);
    if (vectors == 1) d = __builtin_shufflevector(d, d, 0, 4, 1, 5, 2, 6, 3, 7);
    return (vu8)d;
#else
    (void)vectors;
    return x;
#endif
}

/* To nearest, halves to even; |x| is below 2^22. Without an instruction, 1.5 * 2^23 is added:
 * the sum has no fraction bits, and its bits less those of 1.5 * 2^23 (0x4b400000) are the
 * integer. */
CIRCLET_INLINE vi v_round_i32(vf x) {
#if CIRCLET_VBYTES == 64
    typedef float plain __attribute__((vector_size(64)));
    circlet_plain_i32 none = {0};
    return (vi)__builtin_ia32_cvtps2dq512_mask((plain)x, none, (unsigned short)-1, 4);
#elif CIRCLET_VBYTES == 32 && defined(__AVX__)
    typedef float plain __attribute__((vector_size(32)));
    return (vi)__builtin_ia32_cvtps2dq256((plain)x);
#elif defined(__aarch64__)
    vi r;
    __asm__("fcvtns %0.4s, %1.4s" : "=w"(r) : "w"(x));
    return r;
#else
    return (vi)(x + v_splat(12582912.0f)) - 0x4b400000;
#endif
}

CIRCLET_INLINE vd v_load_f64(const double *p) { return *(const vd_u *)p; }
CIRCLET_INLINE vd v_splat_f64(double x) { return x - (vd){0}; }
/* As v_fma. */
CIRCLET_INLINE vd v_fma_f64(vd a, vd b, vd c) {
#if !CIRCLET_HAS_FMA
    return a * b + c;
#elif defined(__clang__)
    return __builtin_elementwise_fma(a, b, c);
#else
    vd r;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_VBYTES / 8; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
#endif
}
CIRCLET_INLINE vd v_blend_f64(vl mask, vd a, vd b) {
    return (vd)((mask & (vl)a) | (~mask & (vl)b));
}

/* Halves of an int32 register as doubles, and back by truncation. */
CIRCLET_INLINE vd v_half_to_f64(vi x, int high) {
    union { vi whole; vhi half[2]; } u = {x};
    return __builtin_convertvector(u.half[high], vd);
}
CIRCLET_INLINE vi v_f64_to_i32(vd low, vd high) {
    union { vhi half[2]; vi whole; } u;
    u.half[0] = __builtin_convertvector(low, vhi);
    u.half[1] = __builtin_convertvector(high, vhi);
    return u.whole;
}

#if defined(__aarch64__)
/* To nearest, halves away from zero, out of range to the nearest end. */
CIRCLET_INLINE vi v_nearest_f64(vd low, vd high) {
    vl first, last;
    vi out;
    __asm__("fcvtas %0.2d, %1.2d" : "=w"(first) : "w"(low));
    __asm__("fcvtas %0.2d, %1.2d" : "=w"(last) : "w"(high));
    __asm__("sqxtn %0.2s, %1.2d" : "=w"(out) : "w"(first));
    __asm__("sqxtn2 %0.4s, %1.2d" : "+w"(out) : "w"(last));
    return out;
}

CIRCLET_INLINE vi v_saturating_add_i32(vi a, vi b) {
    vi sum;
    __asm__("sqadd %0.4s, %1.4s, %2.4s" : "=w"(sum) : "w"(a), "w"(b));
    return sum;
}
#endif

#endif
