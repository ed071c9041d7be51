/* Stable sorting of places by whole numbers that stand for what lies there: least significant digit
 * first (Knuth, volume 3, 5.2.5). */
#ifndef CIRCLET_RADIX_SORT_H
#define CIRCLET_RADIX_SORT_H

#include "stop.h"

#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)
#define RADIX_RUN 4096 /* elements between two questions of whether to stop */

/* Keys of 4 or 8 bytes, and the place that each is of. */
typedef struct radix_list {
    void *key;
    int32_t *place;
} radix_list;

CIRCLET_INLINE uint64_t radix_key(radix_list list, int64_t i, int size) {
    return size == 8 ? ((const uint64_t *)list.key)[i] : ((const uint32_t *)list.key)[i];
}

CIRCLET_INLINE void radix_set(radix_list list, int64_t i, uint64_t key, int32_t place, int size) {
    if (size == 8) ((uint64_t *)list.key)[i] = key;
    else ((uint32_t *)list.key)[i] = (uint32_t)key;
    list.place[i] = place;
}

CIRCLET_INLINE int64_t radix_digit(uint64_t key, int shift) {
    return (int64_t)(key >> shift & (RADIX - 1));
}

/* A key that rises with floats; 0 and -0 are equal, all NaN are equal and the last. */
CIRCLET_INLINE uint32_t radix_key_f32(float value) {
    if (value != value) return UINT32_MAX;
    union { float value; uint32_t bits; } u = {value};
    uint32_t bits = u.bits << 1 ? u.bits : 0;
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* A key that falls where floats rise; NaN are the last here, too. */
CIRCLET_INLINE uint32_t radix_falling_key_f32(float value) {
    return value != value ? UINT32_MAX : ~radix_key_f32(value);
}

CIRCLET_INLINE uint64_t radix_falling_key_f64(double value) {
    if (value != value) return UINT64_MAX;
    union { double value; uint64_t bits; } u = {value};
    uint64_t bits = u.bits << 1 ? u.bits : 0;
    return bits >> 63 ? bits : ~(bits | (uint64_t)1 << 63);
}

/* A bit for each in which any of the keys differ. */
CIRCLET_INLINE uint64_t radix_differing(radix_list list, int64_t count, int size) {
    uint64_t differing = 0, first = radix_key(list, 0, size);
    for (int64_t i = 0; i < count; i++) differing |= radix_key(list, i, size) ^ first;
    return differing;
}

/* Sorts by one digit of the keys; 0 where the run is to end. */
CIRCLET_INLINE int radix_pass(radix_list from, radix_list to, int64_t count, int shift, int size,
                              stop_count *stop) {
    int32_t start[RADIX] = {0};
    for (int64_t i = 0, end; i < count; i = end) {
        end = s_min_i64(i + RADIX_RUN, count);
        for (int64_t k = i; k < end; k++) start[radix_digit(radix_key(from, k, size), shift)]++;
        if (stop_after(stop, RADIX_RUN)) return 0;
    }
    for (int32_t i = 0, sum = 0; i < RADIX; i++) {
        int32_t own = start[i];
        start[i] = sum;
        sum += own;
    }
    for (int64_t i = 0, end; i < count; i = end) {
        end = s_min_i64(i + RADIX_RUN, count);
        for (int64_t k = i; k < end; k++) {
            uint64_t key = radix_key(from, k, size);
            radix_set(to, start[radix_digit(key, shift)]++, key, from.place[k], size);
        }
        if (stop_after(stop, RADIX_RUN)) return 0;
    }
    return 1;
}

/* The list, or `other`, in rising order of its keys, equal ones in the order that they have; in any
 * order where the run is to end. Digits are of bits that differ. */
CIRCLET_INLINE radix_list radix_sorted(radix_list list, radix_list other, int64_t count, int size,
                                       stop_count *stop) {
    uint64_t differing = count ? radix_differing(list, count, size) : 0;
    while (differing) {
        const int shift = __builtin_ctzll(differing);
        if (!radix_pass(list, other, count, shift, size, stop)) return list;
        differing &= ~((uint64_t)(RADIX - 1) << shift);
        radix_list sorted = other;
        other = list, list = sorted;
    }
    return list;
}

#endif
