/* The distinct elements of a list, in the order in which they first stand there. */
#ifndef CIRCLET_BOUNDED_UNIQUE_H
#define CIRCLET_BOUNDED_UNIQUE_H

#include "bounded.h"
#include "stop.h"

struct bounded_unique_params {
    int64_t elements; /* that the list has room for, less than 1 << 30 */
};

/* A number that is the same for equal elements alone: 0 is -0, and all that is no number is one. */
CIRCLET_INLINE uint64_t unique_key(const void *from, int64_t i, int size, int is_float) {
    if (size == 1) return ((const uint8_t *)from)[i];
    if (size == 2) return ((const uint16_t *)from)[i];
    if (size == 8) return ((const uint64_t *)from)[i];
    if (!is_float) return ((const uint32_t *)from)[i];
    union { float value; uint32_t bits; } u = {((const float *)from)[i]};
    if (u.value != u.value) return UINT32_MAX;
    return u.bits << 1 ? u.bits : 0;
}

/* Operands: elements, their count or null; distinct elements, for each element the number of its
 * own, how many are distinct, circlet_stop. One task. The scratch memory is a hash table with open
 * addressing (Knuth, volume 3, 6.4): slots of a distinct element's number and one, at most half of
 * them taken. */
CIRCLET_INLINE void bounded_unique(const struct bounded_unique_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int size,
                                   int is_float, int place_size) {
    (void)begin, (void)end;
    const int64_t count = bounded_count(x[1], p->elements);
    int32_t *slots = scratch;
    int64_t found = 0;
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * count) bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    fill_run(scratch, 0, (int64_t)4 << bits);
    stop_count stop = stop_start(x[5]);
    *(int64_t *)x[4] = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t key = unique_key(x[0], i, size, is_float);
        uint64_t at = key * 0x9e3779b97f4a7c15u >> (64 - bits);
        while (slots[at] && unique_key(x[2], slots[at] - 1, size, is_float) != key) {
            if (stop_after(&stop, 1)) return;
            at = (at + 1) & mask;
        }
        if (!slots[at]) {
            copy_run((char *)x[2] + found * size, (const char *)x[0] + i * size, size);
            slots[at] = (int32_t)++found;
        }
        if (place_size == 8) ((int64_t *)x[3])[i] = slots[at] - 1;
        else ((int32_t *)x[3])[i] = slots[at] - 1;
        if (stop_after(&stop, 1)) return;
    }
    *(int64_t *)x[4] = found;
}

#endif
