/* Stable sorting of places by whole numbers that stand for what lies there: least significant digit
 * first (Knuth, volume 3, 5.2.5). */
#ifndef CIRCLET_RADIX_SORT_H
#define CIRCLET_RADIX_SORT_H

#include "stop.h"

#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)

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

/* Sorts by one digit of the keys; 0 where all have the same, or the run is to end. */
CIRCLET_INLINE int radix_pass(radix_list from, radix_list to, int64_t count, int shift, int size,
                              stop_count *stop) {
    int64_t start[RADIX];
    for (int64_t i = 0; i < RADIX; i++) start[i] = 0;
    for (int64_t i = 0; i < count; i++) {
        start[radix_digit(radix_key(from, i, size), shift)]++;
        if (stop_after(stop, 1)) return 0;
    }
    if (start[radix_digit(radix_key(from, 0, size), shift)] == count) return 0;
    for (int64_t i = 0, sum = 0; i < RADIX; i++) {
        int64_t own = start[i];
        start[i] = sum;
        sum += own;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = radix_key(from, i, size);
        radix_set(to, start[radix_digit(key, shift)]++, key, from.place[i], size);
        if (stop_after(stop, 1)) return 0;
    }
    return 1;
}

/* The list, or `other`, in rising order of its keys, equal ones in the order that they have; in any
 * order where the run is to end. */
CIRCLET_INLINE radix_list radix_sorted(radix_list list, radix_list other, int64_t count, int size,
                                       stop_count *stop) {
    for (int shift = 0; count && shift < 8 * size; shift += RADIX_BITS) {
        if (!radix_pass(list, other, count, shift, size, stop)) continue;
        radix_list sorted = other;
        other = list, list = sorted;
    }
    return list;
}

#endif
