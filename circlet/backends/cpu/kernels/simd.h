/* Vectors of one full register, the same for every target, over compiler vector extensions.
 *
 * Right under clang and GCC; fast under clang. Nothing here needs libc, libm or immintrin.h: units
 * are freestanding, and a unit for another processor is compiled without its headers.
 * Names: v_<what>[_<type>]; no suffix means float lanes. Lane counts follow CIRCLET_VBYTES.
 */
#ifndef CIRCLET_SIMD_H
#define CIRCLET_SIMD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define CIRCLET_VBYTES 64
#elif defined(__AVX2__)
#define CIRCLET_VBYTES 32
#else
#define CIRCLET_VBYTES 16
#endif
#define CIRCLET_LANES (CIRCLET_VBYTES / 4)

#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__) || \
    defined(__ARM_FEATURE_FMA) || defined(__riscv_flen)
#define CIRCLET_HAS_FMA 1
#else
#define CIRCLET_HAS_FMA 0
#endif

#define CIRCLET_INLINE static inline __attribute__((always_inline))
/* may_alias: buffers hold elements of any type, and one buffer serves tensors of different
 * types. */
#define CIRCLET_VECTOR(type, bytes) type __attribute__((vector_size(bytes), may_alias))
#define CIRCLET_UNALIGNED(type, bytes) \
    type __attribute__((vector_size(bytes), aligned(1), may_alias))
#if defined(__clang__)
#define CIRCLET_UNROLL _Pragma("clang loop unroll(full)")
#define CIRCLET_NO_UNROLL _Pragma("clang loop unroll(disable) vectorize(disable)")
#else
#define CIRCLET_UNROLL _Pragma("GCC unroll 64")
#define CIRCLET_NO_UNROLL _Pragma("GCC unroll 0")
#endif
#define CIRCLET_LIKELY(x) __builtin_expect(!!(x), 1)

/* Full registers. */
typedef CIRCLET_VECTOR(float, CIRCLET_VBYTES) vf;
typedef CIRCLET_VECTOR(int32_t, CIRCLET_VBYTES) vi;
typedef CIRCLET_VECTOR(uint32_t, CIRCLET_VBYTES) vu;
typedef CIRCLET_VECTOR(int64_t, CIRCLET_VBYTES) vl;
typedef CIRCLET_VECTOR(int16_t, CIRCLET_VBYTES) vi16;
typedef CIRCLET_VECTOR(uint16_t, CIRCLET_VBYTES) vu16;
typedef CIRCLET_VECTOR(int8_t, CIRCLET_VBYTES) vi8;
typedef CIRCLET_VECTOR(uint8_t, CIRCLET_VBYTES) vu8;
/* CIRCLET_LANES elements of a narrower type: a half or a quarter of a register. */
typedef CIRCLET_VECTOR(int16_t, CIRCLET_VBYTES / 2) vhi16;
typedef CIRCLET_VECTOR(uint16_t, CIRCLET_VBYTES / 2) vhu16;
typedef CIRCLET_VECTOR(int8_t, CIRCLET_VBYTES / 4) vqi8;
typedef CIRCLET_VECTOR(uint8_t, CIRCLET_VBYTES / 4) vqu8;

typedef CIRCLET_UNALIGNED(float, CIRCLET_VBYTES) vf_u;
typedef CIRCLET_UNALIGNED(int32_t, CIRCLET_VBYTES) vi_u;
typedef CIRCLET_UNALIGNED(int8_t, CIRCLET_VBYTES) vi8_u;
typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES) vu8_u;
typedef CIRCLET_UNALIGNED(int16_t, CIRCLET_VBYTES) vi16_u;
typedef CIRCLET_UNALIGNED(int16_t, CIRCLET_VBYTES / 2) vhi16_u;
typedef CIRCLET_UNALIGNED(uint16_t, CIRCLET_VBYTES / 2) vhu16_u;
typedef CIRCLET_UNALIGNED(int8_t, CIRCLET_VBYTES / 4) vqi8_u;
typedef CIRCLET_UNALIGNED(uint8_t, CIRCLET_VBYTES / 4) vqu8_u;

/* Loads and stores of full registers, any alignment. */
CIRCLET_INLINE vf v_load(const float *p) { return *(const vf_u *)p; }
CIRCLET_INLINE void v_store(float *p, vf x) { *(vf_u *)p = x; }
CIRCLET_INLINE vi v_load_i32(const int32_t *p) { return *(const vi_u *)p; }
CIRCLET_INLINE void v_store_i32(int32_t *p, vi x) { *(vi_u *)p = x; }
CIRCLET_INLINE vu8 v_load_u8(const uint8_t *p) { return *(const vu8_u *)p; }
CIRCLET_INLINE void v_store_u8(uint8_t *p, vu8 x) { *(vu8_u *)p = x; }
CIRCLET_INLINE vi8 v_load_i8(const int8_t *p) { return *(const vi8_u *)p; }
CIRCLET_INLINE void v_store_i8(int8_t *p, vi8 x) { *(vi8_u *)p = x; }

/* CIRCLET_LANES narrow elements to and from int32 lanes; narrowing keeps the low bits. */
CIRCLET_INLINE vi v_widen_u8(const uint8_t *p) {
    return __builtin_convertvector(*(const vqu8_u *)p, vi);
}
CIRCLET_INLINE vi v_widen_i8(const int8_t *p) {
    return __builtin_convertvector(*(const vqi8_u *)p, vi);
}
CIRCLET_INLINE vi v_widen_i16(const int16_t *p) {
    return __builtin_convertvector(*(const vhi16_u *)p, vi);
}
CIRCLET_INLINE vi v_widen_u16(const uint16_t *p) {
    return __builtin_convertvector(*(const vhu16_u *)p, vi);
}
CIRCLET_INLINE void v_narrow_u8(uint8_t *p, vi x) {
    *(vqu8_u *)p = __builtin_convertvector(x, vqu8);
}
CIRCLET_INLINE void v_narrow_i8(int8_t *p, vi x) {
    *(vqi8_u *)p = __builtin_convertvector(x, vqi8);
}
CIRCLET_INLINE void v_narrow_i16(int16_t *p, vi x) {
    *(vhi16_u *)p = __builtin_convertvector(x, vhi16);
}

/* Scalar minus zero vector: compilers make one broadcast of it, and it keeps every float as it is,
 * -0 too (-0 - +0 is -0, where a sum would give +0). */
CIRCLET_INLINE vf v_splat(float x) { return x - (vf){0}; }
CIRCLET_INLINE vi v_splat_i32(int32_t x) { return x - (vi){0}; }
CIRCLET_INLINE vf v_zero(void) { return (vf){0}; }
CIRCLET_INLINE vi v_zero_i32(void) { return (vi){0}; }
CIRCLET_INLINE vi v_iota(void) {
    vi x;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) x[i] = i;
    return x;
}

/* a * b + c, rounded once where the target has FMA instructions, twice where it has none.
 * Contraction is off in the flags: only what is written with v_fma is fused, so that results do
 * not depend on what a compiler finds. */
CIRCLET_INLINE vf v_fma(vf a, vf b, vf c) {
#if !CIRCLET_HAS_FMA
    return a * b + c;
#elif defined(__clang__)
    return __builtin_elementwise_fma(a, b, c);
#elif CIRCLET_VBYTES == 64
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif CIRCLET_VBYTES == 32
    return __builtin_ia32_vfmaddps256(a, b, c);
#else
    vf r;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
#endif
}

/* Lanes of `a` where the mask is all ones, of `b` where it is zero. */
CIRCLET_INLINE vi v_select_i32(vi mask, vi a, vi b) { return (mask & a) | (~mask & b); }
CIRCLET_INLINE vf v_select(vi mask, vf a, vf b) {
    return (vf)v_select_i32(mask, (vi)a, (vi)b);
}

/* a < b ? a : b and a > b ? a : b: the second operand where either is NaN. */
CIRCLET_INLINE vf v_min(vf a, vf b) { return v_select((vi)(a < b), a, b); }
CIRCLET_INLINE vf v_max(vf a, vf b) { return v_select((vi)(a > b), a, b); }
/* min(max(x, low), high); NaN stays NaN. */
CIRCLET_INLINE vf v_clamp(vf x, vf low, vf high) { return v_min(high, v_max(low, x)); }
CIRCLET_INLINE vi v_min_i32(vi a, vi b) { return v_select_i32(a < b, a, b); }
CIRCLET_INLINE vi v_max_i32(vi a, vi b) { return v_select_i32(a > b, a, b); }
CIRCLET_INLINE vi v_clamp_i32(vi x, vi low, vi high) {
    return v_min_i32(high, v_max_i32(low, x));
}

CIRCLET_INLINE vf v_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }
CIRCLET_INLINE vf v_copysign(vf size, vf sign) {
    return (vf)(((vi)size & 0x7fffffff) | ((vi)sign & (int32_t)0x80000000));
}

/* Truncating; lanes out of the range of int32 (and NaN) have no defined value. */
CIRCLET_INLINE vi v_to_i32(vf x) { return __builtin_convertvector(x, vi); }
CIRCLET_INLINE vf v_to_f32(vi x) { return __builtin_convertvector(x, vf); }

/* To an integer value in float, any input; NaN, infinities and the sign of zero are kept. Floats
 * from 2^23 = 8388608 on are integers, and most of them do not fit int32: they stay as they are. */
CIRCLET_INLINE vf v_integral(vf x, vf whole) {
    return v_select((vi)(v_abs(x) < v_splat(8388608.0f)), v_copysign(whole, x), x);
}
CIRCLET_INLINE vf v_small(vf x) {
    return v_select((vi)(v_abs(x) < v_splat(8388608.0f)), x, v_zero());
}
#if defined(__clang__) && (defined(__AVX__) || defined(__aarch64__))
CIRCLET_INLINE vf v_trunc(vf x) { return __builtin_elementwise_trunc(x); }
CIRCLET_INLINE vf v_floor(vf x) { return __builtin_elementwise_floor(x); }
CIRCLET_INLINE vf v_ceil(vf x) { return __builtin_elementwise_ceil(x); }
/* Halves to even. */
CIRCLET_INLINE vf v_round_even(vf x) { return __builtin_elementwise_roundeven(x); }
#else
CIRCLET_INLINE vf v_trunc(vf x) { return v_integral(x, v_to_f32(v_to_i32(v_small(x)))); }
CIRCLET_INLINE vf v_floor(vf x) {
    vf t = v_to_f32(v_to_i32(v_small(x)));
    return v_integral(x, t - (vf)((vi)v_splat(1.0f) & (vi)(t > x)));
}
CIRCLET_INLINE vf v_ceil(vf x) {
    vf t = v_to_f32(v_to_i32(v_small(x)));
    return v_integral(x, t + (vf)((vi)v_splat(1.0f) & (vi)(t < x)));
}
/* Halves to even. */
CIRCLET_INLINE vf v_round_even(vf x) {
    vf big = v_splat(8388608.0f); /* sums from 2^23 on have no fraction bits: adding rounds */
    vf a = v_abs(x);
    return v_integral(x, (a + big) - big);
}
#endif
/* Halves away from zero. */
CIRCLET_INLINE vf v_round_away(vf x) {
    vf a = v_abs(v_small(x));
    vf t = v_to_f32(v_to_i32(a));
    return v_integral(x, t + (vf)((vi)v_splat(1.0f) & (vi)(a - t >= v_splat(0.5f))));
}

/* The first n <= CIRCLET_LANES elements; lanes behind them read as zero and are not touched. The
 * barriers keep compilers from calling memcpy for a few bytes. */
#define CIRCLET_COUNT(i, n) \
    CIRCLET_NO_UNROLL for (int64_t i = 0; i < (n); i++, ({ __asm__ volatile("" ::: "memory"); }))
CIRCLET_INLINE vi v_lane_mask(int64_t n) { return v_iota() < v_splat_i32((int32_t)n); }
#if CIRCLET_VBYTES == 64
#define CIRCLET_MASK(n) ((unsigned short)((1u << (n)) - 1))
CIRCLET_INLINE vf v_load_n(const float *p, int64_t n) {
    return __builtin_ia32_loadups512_mask(p, v_zero(), CIRCLET_MASK(n));
}
CIRCLET_INLINE void v_store_n(float *p, vf x, int64_t n) {
    __builtin_ia32_storeups512_mask(p, x, CIRCLET_MASK(n));
}
#elif CIRCLET_VBYTES == 32
typedef float circlet_plain_f32x8 __attribute__((vector_size(32)));
typedef int32_t circlet_plain_i32x8 __attribute__((vector_size(32)));
CIRCLET_INLINE vf v_load_n(const float *p, int64_t n) {
    circlet_plain_i32x8 mask = (circlet_plain_i32x8)v_lane_mask(n);
    return (vf)__builtin_ia32_maskloadps256((const circlet_plain_f32x8 *)p, mask);
}
CIRCLET_INLINE void v_store_n(float *p, vf x, int64_t n) {
    circlet_plain_i32x8 mask = (circlet_plain_i32x8)v_lane_mask(n);
    __builtin_ia32_maskstoreps256((circlet_plain_f32x8 *)p, mask, (circlet_plain_f32x8)x);
}
#else
CIRCLET_INLINE vf v_load_n(const float *p, int64_t n) {
    vf x = v_zero();
    if (n > 0) x[0] = p[0];
    if (n > 1) x[1] = p[1];
    if (n > 2) x[2] = p[2];
    if (n > 3) x[3] = p[3];
    return x;
}
CIRCLET_INLINE void v_store_n(float *p, vf x, int64_t n) {
    if (n > 0) p[0] = x[0];
    if (n > 1) p[1] = x[1];
    if (n > 2) p[2] = x[2];
    if (n > 3) p[3] = x[3];
}
#endif
CIRCLET_INLINE vi v_load_n_i32(const int32_t *p, int64_t n) {
    return (vi)v_load_n((const float *)p, n);
}
CIRCLET_INLINE void v_store_n_i32(int32_t *p, vi x, int64_t n) {
    v_store_n((float *)p, (vf)x, n);
}
CIRCLET_INLINE vi v_widen_n_u8(const uint8_t *p, int64_t n) {
    union { vqu8 v; uint8_t e[CIRCLET_LANES]; } u = {{0}};
    CIRCLET_COUNT(i, n) u.e[i] = p[i];
    return __builtin_convertvector(u.v, vi);
}
CIRCLET_INLINE vi v_widen_n_i8(const int8_t *p, int64_t n) {
    union { vqi8 v; int8_t e[CIRCLET_LANES]; } u = {{0}};
    CIRCLET_COUNT(i, n) u.e[i] = p[i];
    return __builtin_convertvector(u.v, vi);
}
/* For int8 and uint8 alike: the low bytes. */
CIRCLET_INLINE void v_narrow_n_8(void *p, vi x, int64_t n) {
#if CIRCLET_VBYTES == 64
    typedef char plain __attribute__((vector_size(16)));
    __builtin_ia32_pmovdb512mem_mask((plain *)p, x, CIRCLET_MASK(n));
#else
    union { vqi8 v; int8_t e[CIRCLET_LANES]; } u = {__builtin_convertvector(x, vqi8)};
    CIRCLET_COUNT(i, n) ((int8_t *)p)[i] = u.e[i];
#endif
}

/* The lanes from the first on, each `n` times side by side: n is a power of two, and where that is
 * as many as there are lanes, or more, all are the first. */
#if CIRCLET_LANES == 16
#define CIRCLET_TWICE(x) \
    __builtin_shufflevector(x, x, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)
#elif CIRCLET_LANES == 8
#define CIRCLET_TWICE(x) __builtin_shufflevector(x, x, 0, 0, 1, 1, 2, 2, 3, 3)
#else
#define CIRCLET_TWICE(x) __builtin_shufflevector(x, x, 0, 0, 1, 1)
#endif
CIRCLET_INLINE vf v_repeat(vf x, const int n) {
    if (n >= CIRCLET_LANES) return v_splat(x[0]);
    CIRCLET_UNROLL for (int times = 1; times < n; times *= 2) x = CIRCLET_TWICE(x);
    return x;
}
/* The same of floats in memory; those behind the ones that are repeated are not touched. */
CIRCLET_INLINE vf v_load_repeated(const float *p, const int n) {
    if (n == 1) return v_load(p);
    if (n >= CIRCLET_LANES) return v_splat(*p);
    vf x = {0};
    __builtin_memcpy(&x, p, CIRCLET_VBYTES / (size_t)n);
    return v_repeat(x, n);
}

/* Lanes whose numbers differ by `n`, a power of two, change places. */
#if CIRCLET_LANES == 16
#define CIRCLET_SWAP(x, n)                                                                     \
    __builtin_shufflevector(x, x, 0 ^ (n), 1 ^ (n), 2 ^ (n), 3 ^ (n), 4 ^ (n), 5 ^ (n), 6 ^ (n), \
                            7 ^ (n), 8 ^ (n), 9 ^ (n), 10 ^ (n), 11 ^ (n), 12 ^ (n), 13 ^ (n), \
                            14 ^ (n), 15 ^ (n))
#elif CIRCLET_LANES == 8
#define CIRCLET_SWAP(x, n)                                                                     \
    __builtin_shufflevector(x, x, 0 ^ (n), 1 ^ (n), 2 ^ (n), 3 ^ (n), 4 ^ (n), 5 ^ (n), 6 ^ (n), \
                            7 ^ (n))
#else
#define CIRCLET_SWAP(x, n) __builtin_shufflevector(x, x, 0 ^ (n), 1 ^ (n), 2 ^ (n), 3 ^ (n))
#endif
#if CIRCLET_LANES >= 16
#define CIRCLET_HALVE_16(a, b, join) b = CIRCLET_SWAP(a, 8), a = join;
#else
#define CIRCLET_HALVE_16(a, b, join)
#endif
#if CIRCLET_LANES >= 8
#define CIRCLET_HALVE_8(a, b, join) b = CIRCLET_SWAP(a, 4), a = join;
#else
#define CIRCLET_HALVE_8(a, b, join)
#endif

/* Over all lanes, halving in a fixed order: `join` is of vectors a and b. Tails are masked runs
 * of the same code, so sums of floats depend on the width of registers, and on nothing else. */
#define CIRCLET_FOLD(name, element, vector, join)    \
    CIRCLET_INLINE element name(vector a) {          \
        vector b;                                    \
        CIRCLET_HALVE_16(a, b, join)                 \
        CIRCLET_HALVE_8(a, b, join)                  \
        b = CIRCLET_SWAP(a, 2), a = join;            \
        b = CIRCLET_SWAP(a, 1), a = join;            \
        return a[0];                                 \
    }
CIRCLET_FOLD(v_fold_add, float, vf, a + b)
CIRCLET_FOLD(v_fold_max, float, vf, v_max(a, b))
CIRCLET_FOLD(v_fold_min, float, vf, v_min(a, b))
CIRCLET_FOLD(v_fold_add_i32, int32_t, vi, a + b)
CIRCLET_FOLD(v_fold_max_i32, int32_t, vi, v_max_i32(a, b))
CIRCLET_FOLD(v_fold_min_i32, int32_t, vi, v_min_i32(a, b))

/* Stores the lanes that a mask selects side by side: how many. What lies behind them, up to a
 * vector in all, means nothing. */
CIRCLET_INLINE int64_t v_compress_i32(int32_t *p, vi x, vi mask) {
#if CIRCLET_VBYTES == 64
    typedef int32_t plain __attribute__((vector_size(64)));
    const plain zero = {0};
    unsigned short set = __builtin_ia32_cmpd512_mask((plain)mask, zero, 1, (unsigned short)-1);
    v_store_i32(p, (vi)__builtin_ia32_compresssi512_mask((plain)x, zero, set));
    return __builtin_popcount(set);
#else
    int64_t count = 0;
    CIRCLET_UNROLL for (int i = 0; i < CIRCLET_LANES; i++) {
        p[count] = x[i];
        count -= mask[i];
    }
    return count;
#endif
}

CIRCLET_INLINE int64_t s_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
CIRCLET_INLINE int64_t s_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#include "support.h"

#endif
