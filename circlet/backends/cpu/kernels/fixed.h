/* Fixed-point arithmetic on int32 lanes, as gemmlowp defines it. */
#ifndef CIRCLET_FIXED_H
#define CIRCLET_FIXED_H

#include "simd.h"

typedef CIRCLET_VECTOR(uint64_t, CIRCLET_VBYTES) fixed_vul;

CIRCLET_INLINE vi v_shl_i32(vi a, vi n) { return (vi)((vu)a << (vu)n); }
CIRCLET_INLINE vi v_shr_i32(vi a, vi n) { return a >> n; }

/* Signed 64-bit products of the low halves of 64-bit lanes, rounded at bit 31. */
CIRCLET_INLINE vl fixed_product(vl a, vl b) {
    return (a << 32 >> 32) * (b << 32 >> 32) + (1ll << 30);
}

/* (a * b) >> 31, rounded to nearest, halves up; not both may be INT32_MIN. */
CIRCLET_INLINE vi v_srdhm(vi a, vi b) {
    fixed_vul even = (fixed_vul)fixed_product((vl)a, (vl)b);
    vl odd = fixed_product((vl)((fixed_vul)a >> 32), (vl)((fixed_vul)b >> 32));
    vl low = (vl){0} + 0xffffffffll;
    return (vi)((low & (vl)(even >> 31)) | (~low & (odd + odd)));
}

/* x / 2^exponent, rounded to nearest, halves away from zero; 0 <= exponent <= 31. */
CIRCLET_INLINE vi v_rdbpot(vi x, vi exponent) {
    vi mask = (vi)(((vu){0} + 1u << (vu)exponent) - 1u);
    vi threshold = (mask >> 1) - (vi)(x < v_zero_i32());
    return (x >> exponent) - (vi)((x & mask) > threshold);
}

#endif
