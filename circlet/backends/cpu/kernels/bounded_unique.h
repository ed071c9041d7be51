/* The distinct elements of a list, in the order in which they first stand there or in rising order. */
#ifndef CIRCLET_BOUNDED_UNIQUE_H
#define CIRCLET_BOUNDED_UNIQUE_H

#include "bounded.h"
#include "radix_sort.h"

struct bounded_unique_params {
    int64_t elements; /* that the list has room for, less than 1 << 30 */
};

struct bounded_unique_rising_params {
    int64_t elements; /* likewise */
};

enum unique_kind { UNIQUE_UNSIGNED, UNIQUE_SIGNED, UNIQUE_FLOAT };

/* A number that rises with elements, and is the same for equal ones alone: 0 is -0, and all that is
 * no number is one, the last. */
CIRCLET_INLINE uint64_t unique_key(const void *from, int64_t i, int size, int kind) {
    if (kind == UNIQUE_FLOAT) return radix_key_f32(((const float *)from)[i]);
    const uint64_t flip = kind == UNIQUE_SIGNED ? (uint64_t)1 << (8 * size - 1) : 0;
    if (size == 1) return ((const uint8_t *)from)[i] ^ flip;
    if (size == 2) return ((const uint16_t *)from)[i] ^ flip;
    if (size == 4) return ((const uint32_t *)from)[i] ^ flip;
    return ((const uint64_t *)from)[i] ^ flip;
}

/* What is told of distinct elements; lists may be null but for the elements. */
typedef struct unique_out {
    char *values;
    void *first, *inverse, *counts;
    int64_t *found;
    int size, place_size;
} unique_out;

CIRCLET_INLINE unique_out unique_out_of(void *const *x, int size, int place_size) {
    unique_out out = {x[2], x[3], x[4], x[5], x[6], size, place_size};
    *out.found = 0;
    return out;
}

CIRCLET_INLINE void unique_put(void *list, int64_t at, int64_t value, int size) {
    if (!list) return;
    if (size == 8) ((int64_t *)list)[at] = value;
    else ((int32_t *)list)[at] = (int32_t)value;
}

CIRCLET_INLINE void unique_count(void *list, int64_t at, int size) {
    if (!list) return;
    if (size == 8) ((int64_t *)list)[at]++;
    else ((int32_t *)list)[at]++;
}

/* One more distinct element, that at `place` of the list. */
CIRCLET_INLINE void unique_add(const unique_out *out, const void *from, int64_t at, int64_t place) {
    copy_run(out->values + at * out->size, (const char *)from + place * out->size, out->size);
    unique_put(out->first, at, place, out->place_size);
    unique_put(out->counts, at, 0, out->place_size);
}

/* One more element that is equal to distinct element `at`. */
CIRCLET_INLINE void unique_meet(const unique_out *out, int64_t at, int64_t place) {
    unique_put(out->inverse, place, at, out->place_size);
    unique_count(out->counts, at, out->place_size);
}

/* Operands: elements, their count or null; distinct elements, where each stands first, for each
 * element the number of its own, how often each stands there (these three may be null), how many
 * are distinct, circlet_stop. One task. The scratch memory is a hash table with open addressing
 * (Knuth, volume 3, 6.4): slots of a distinct element's number and one, at most half taken. */
CIRCLET_INLINE void bounded_unique(const struct bounded_unique_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int size, int kind,
                                   int place_size) {
    (void)begin, (void)end;
    const int64_t count = bounded_count(x[1], p->elements);
    const unique_out out = unique_out_of(x, size, place_size);
    int32_t *slots = scratch;
    int64_t found = 0;
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * count) bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    fill_run(scratch, 0, (int64_t)4 << bits);
    stop_count stop = stop_start(x[7]);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t key = unique_key(x[0], i, size, kind);
        uint64_t at = key * 0x9e3779b97f4a7c15u >> (64 - bits);
        while (slots[at] && unique_key(x[2], slots[at] - 1, size, kind) != key) {
            if (stop_after(&stop, 1)) return;
            at = (at + 1) & mask;
        }
        if (!slots[at]) {
            unique_add(&out, x[0], found, i);
            slots[at] = (int32_t)++found;
        }
        unique_meet(&out, slots[at] - 1, i);
        if (stop_after(&stop, 1)) return;
    }
    *out.found = found;
}

/* Operands: as `bounded_unique` has them. One task. The scratch memory holds two lists to sort, of
 * keys of the width of the elements, but of 4 bytes at the least. */
CIRCLET_INLINE void bounded_unique_rising(const struct bounded_unique_rising_params *p,
                                          void *const *x, void *scratch, int64_t begin, int64_t end,
                                          int size, int kind, int place_size) {
    (void)begin, (void)end;
    const int64_t count = bounded_count(x[1], p->elements);
    const unique_out out = unique_out_of(x, size, place_size);
    const int wide = size == 8 ? 8 : 4;
    char *keys = scratch, *places = keys + 2 * p->elements * wide;
    radix_list list = {keys, (int32_t *)places};
    radix_list other = {keys + p->elements * wide, list.place + p->elements};
    stop_count stop = stop_start(x[7]);
    for (int64_t i = 0; i < count; i++)
        radix_set(list, i, unique_key(x[0], i, size, kind), (int32_t)i, wide);
    list = radix_sorted(list, other, count, wide, &stop);
    if (stop_after(&stop, 0)) return;
    int64_t found = 0;
    uint64_t last = 0;
    for (int64_t i = 0, run_end; i < count; i = run_end) {
        run_end = s_min_i64(i + RADIX_RUN, count);
        for (int64_t k = i; k < run_end; k++) {
            uint64_t key = radix_key(list, k, wide);
            if (key != last || !found) unique_add(&out, x[0], found++, list.place[k]);
            if (out.inverse || out.counts) unique_meet(&out, found - 1, list.place[k]);
            last = key;
        }
        if (stop_after(&stop, RADIX_RUN)) return;
    }
    *out.found = found;
}

#endif
