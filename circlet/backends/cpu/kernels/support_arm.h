/* The run-time ABI of 32-bit Arm: 64-bit division and conversion, which it has no instructions for.
 *
 * Floats travel in core registers here whatever the target does elsewhere.
 */
#ifndef CIRCLET_SUPPORT_ARM_H
#define CIRCLET_SUPPORT_ARM_H

#include "support.h"

CIRCLET_SUPPORT void __aeabi_memcpy(void *t, const void *f, size_t n) { memcpy(t, f, n); }
CIRCLET_SUPPORT void __aeabi_memcpy4(void *t, const void *f, size_t n) { memcpy(t, f, n); }
CIRCLET_SUPPORT void __aeabi_memcpy8(void *t, const void *f, size_t n) { memcpy(t, f, n); }
CIRCLET_SUPPORT void __aeabi_memset(void *t, size_t n, int v) { memset(t, v, n); }
CIRCLET_SUPPORT void __aeabi_memset4(void *t, size_t n, int v) { memset(t, v, n); }
CIRCLET_SUPPORT void __aeabi_memset8(void *t, size_t n, int v) { memset(t, v, n); }
CIRCLET_SUPPORT void __aeabi_memclr(void *t, size_t n) { memset(t, 0, n); }
CIRCLET_SUPPORT void __aeabi_memclr4(void *t, size_t n) { memset(t, 0, n); }
CIRCLET_SUPPORT void __aeabi_memclr8(void *t, size_t n) { memset(t, 0, n); }
CIRCLET_SUPPORT void __aeabi_unwind_cpp_pr0(void) {}
CIRCLET_SUPPORT void __aeabi_unwind_cpp_pr1(void) {}

#if !defined(__ARM_FEATURE_IDIV)
/* Quotient in the low half, remainder in the high half, as the run-time ABI wants them. */
CIRCLET_SUPPORT uint64_t __aeabi_uidivmod(uint32_t a, uint32_t b) {
    uint32_t quotient = 0, rest = 0;
    for (int bit = 31; bit >= 0; bit--) {
        rest = rest << 1 | (a >> bit & 1);
        if (rest >= b) {
            rest -= b;
            quotient |= 1u << bit;
        }
    }
    return (uint64_t)rest << 32 | quotient;
}
CIRCLET_SUPPORT uint32_t __aeabi_uidiv(uint32_t a, uint32_t b) {
    return (uint32_t)__aeabi_uidivmod(a, b);
}
CIRCLET_SUPPORT uint64_t __aeabi_idivmod(int32_t a, int32_t b) {
    uint64_t both = __aeabi_uidivmod(a < 0 ? -(uint32_t)a : (uint32_t)a,
                                     b < 0 ? -(uint32_t)b : (uint32_t)b);
    uint32_t quotient = (uint32_t)both, rest = (uint32_t)(both >> 32);
    if ((a < 0) != (b < 0)) quotient = -quotient;
    return (uint64_t)(a < 0 ? -rest : rest) << 32 | quotient;
}
CIRCLET_SUPPORT int32_t __aeabi_idiv(int32_t a, int32_t b) {
    return (int32_t)__aeabi_idivmod(a, b);
}
#endif

CIRCLET_SUPPORT uint64_t circlet_divide_u64(uint64_t a, uint64_t b, uint64_t *rest) {
    uint64_t quotient = 0, left = 0;
    if (!(a >> 32) && !(b >> 32)) {
        *rest = (uint32_t)a % (uint32_t)b;
        return (uint32_t)a / (uint32_t)b;
    }
    for (int bit = 63 - __builtin_clzll(a | 1); bit >= 0; bit--) {
        left = left << 1 | (a >> bit & 1);
        if (left >= b) {
            left -= b;
            quotient |= (uint64_t)1 << bit;
        }
    }
    *rest = left;
    return quotient;
}
CIRCLET_SUPPORT int64_t circlet_divide_i64(int64_t a, int64_t b, int64_t *rest) {
    uint64_t left;
    uint64_t quotient = circlet_divide_u64(a < 0 ? -(uint64_t)a : (uint64_t)a,
                                           b < 0 ? -(uint64_t)b : (uint64_t)b, &left);
    *rest = (int64_t)(a < 0 ? -left : left);
    return (int64_t)((a < 0) != (b < 0) ? -quotient : quotient);
}

/* Quotient in r0 and r1, remainder in r2 and r3: no C type is returned like that. */
#define CIRCLET_DIVMOD(name, divide)                                                  \
    __attribute__((weak, visibility("hidden"), naked)) void name(void) {              \
        __asm__("push {r11, lr}\n\tsub sp, sp, #16\n\tadd r12, sp, #8\n\t"            \
                "str r12, [sp]\n\tbl " #divide "\n\tldr r2, [sp, #8]\n\t"             \
                "ldr r3, [sp, #12]\n\tadd sp, sp, #16\n\tpop {r11, pc}");             \
    }
CIRCLET_DIVMOD(__aeabi_ldivmod, circlet_divide_i64)
CIRCLET_DIVMOD(__aeabi_uldivmod, circlet_divide_u64)

#define CIRCLET_SOFT CIRCLET_SUPPORT __attribute__((pcs("aapcs")))
#define CIRCLET_2_32 4294967296.0
/* One rounding: both halves are exact. */
CIRCLET_SOFT double __aeabi_ul2d(uint64_t x) {
    return (double)(uint32_t)(x >> 32) * CIRCLET_2_32 + (double)(uint32_t)x;
}
CIRCLET_SOFT double __aeabi_l2d(int64_t x) {
    return (double)(int32_t)(x >> 32) * CIRCLET_2_32 + (double)(uint32_t)x;
}
/* Beyond 53 bits the lowest bit stands for all that are cut off, so that only one rounding counts. */
CIRCLET_SOFT float __aeabi_ul2f(uint64_t x) {
    if (!(x >> 53)) return (float)__aeabi_ul2d(x);
    return (float)__aeabi_ul2d(x >> 11 | ((x & 2047) != 0)) * 2048.0f;
}
CIRCLET_SOFT float __aeabi_l2f(int64_t x) {
    float size = __aeabi_ul2f(x < 0 ? -(uint64_t)x : (uint64_t)x);
    return x < 0 ? -size : size;
}
CIRCLET_SOFT uint64_t __aeabi_d2ulz(double x) {
    uint32_t high = (uint32_t)(x / CIRCLET_2_32);
    return (uint64_t)high << 32 | (uint32_t)(x - (double)high * CIRCLET_2_32);
}
CIRCLET_SOFT int64_t __aeabi_d2lz(double x) {
    return x < 0 ? -(int64_t)__aeabi_d2ulz(-x) : (int64_t)__aeabi_d2ulz(x);
}
CIRCLET_SOFT uint64_t __aeabi_f2ulz(float x) { return __aeabi_d2ulz(x); }
CIRCLET_SOFT int64_t __aeabi_f2lz(float x) { return __aeabi_d2lz(x); }

#endif
