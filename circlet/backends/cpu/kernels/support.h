/* Functions that compilers call on their own: units are linked without any library. The barriers
 * keep a compiler from seeing that these loops are memcpy and memset, and calling them from
 * themselves. */
#ifndef CIRCLET_SUPPORT_H
#define CIRCLET_SUPPORT_H

#include "simd.h"

#define CIRCLET_SUPPORT __attribute__((weak, visibility("hidden"), noinline))
CIRCLET_SUPPORT void *memcpy(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    for (; n >= CIRCLET_VBYTES; n -= CIRCLET_VBYTES, t += CIRCLET_VBYTES, f += CIRCLET_VBYTES) {
        *(vi8_u *)t = *(const vi8_u *)f;
        __asm__ volatile("" ::: "memory");
    }
    for (; n; n--) {
        *t++ = *f++;
        __asm__ volatile("" ::: "memory");
    }
    return to;
}
CIRCLET_SUPPORT void *memset(void *to, int value, size_t n) {
    char *t = to;
    vi8 fill = (vi8){0} + (int8_t)value;
    for (; n >= CIRCLET_VBYTES; n -= CIRCLET_VBYTES, t += CIRCLET_VBYTES) {
        *(vi8_u *)t = fill;
        __asm__ volatile("" ::: "memory");
    }
    for (; n; n--) {
        *t++ = (char)value;
        __asm__ volatile("" ::: "memory");
    }
    return to;
}

#if defined(__arm__)
#include "support_arm.h"
#endif

#endif
