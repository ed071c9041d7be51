/* bfloat16: the upper half of a float32, two of them to a lane.
 *
 * Sums follow one rule on every target: products are exact in float32, and the odd element of a
 * lane joins the sum before the even one, each with one rounding. Only where the instructions of
 * a target flush numbers below 2^-126 to zero may sums differ, by less than that for each product.
 */
#ifndef CIRCLET_BF16_H
#define CIRCLET_BF16_H

#include "simd.h"

/* Phases of a product: in each one, what `v_bf16_part` makes of both operands is multiplied. */
#if defined(__AVX512BF16__)
#define BF16_PHASES 1
CIRCLET_INLINE vi v_bf16_part(vi x, const int phase) {
    (void)phase;
    return x;
}
CIRCLET_INLINE vf v_bf16_dot(vf c, vi a, vi b, const int phase) {
    (void)phase;
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define BF16_PHASES 2
CIRCLET_INLINE vi v_bf16_part(vi x, const int phase) {
    (void)phase;
    return x;
}
CIRCLET_INLINE vf v_bf16_dot(vf c, vi a, vi b, const int phase) {
    if (phase) __asm__("bfmlalb %0.4s, %1.8h, %2.8h" : "+w"(c) : "w"(a), "w"(b));
    else __asm__("bfmlalt %0.4s, %1.8h, %2.8h" : "+w"(c) : "w"(a), "w"(b));
    return c;
}
#else
#define BF16_PHASES 2
CIRCLET_INLINE vi v_bf16_part(vi x, const int phase) {
    return phase ? (vi)(x << 16) : (vi)(x & (int32_t)0xffff0000);
}
CIRCLET_INLINE vf v_bf16_dot(vf c, vi a, vi b, const int phase) {
    (void)phase;
    return v_fma((vf)a, (vf)b, c);
}
#endif

/* To the nearest bfloat16 in the lower half of each lane, halves to even; NaN stays NaN and
 * numbers below 2^-126 become zero. */
CIRCLET_INLINE vi v_to_bf16(vf x) {
#if defined(__AVX512BF16__)
    vhu16 half;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(x));
    return __builtin_convertvector(half, vi);
#else
    vu bits = (vu)x, nearest = bits + 0x7fff + (bits >> 16 & 1);
    vi kept = v_select_i32((vi)(x == x), (vi)(nearest >> 16), (vi)(bits >> 16 | 0x40));
    return v_select_i32((vi)(v_abs(x) < v_splat(0x1p-126f)), (vi)(bits >> 16 & 0x8000), kept);
#endif
}

/* n elements of `from`. */
CIRCLET_INLINE void bf16_cast(uint16_t *to, const float *from, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512BF16__)
    for (; i + 2 * CIRCLET_LANES <= n; i += 2 * CIRCLET_LANES) {
        vi both;
        __asm__("vcvtne2ps2bf16 %1, %2, %0"
                : "=v"(both)
                : "v"(v_load(from + i)), "v"(v_load(from + i + CIRCLET_LANES)));
        v_store_i32((int32_t *)(to + i), both);
    }
#endif
    for (; i + CIRCLET_LANES <= n; i += CIRCLET_LANES)
        v_narrow_i16((int16_t *)(to + i), v_to_bf16(v_load(from + i)));
    if (i == n) return;
    vi rest = v_to_bf16(v_load_n(from + i, n - i));
    CIRCLET_COUNT(k, n - i) to[i + k] = (uint16_t)rest[k];
}

#endif
