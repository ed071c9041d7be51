/* The largest elements of each row, in falling order, and their indices. */
#ifndef CIRCLET_TOP_K_H
#define CIRCLET_TOP_K_H

#include "bounded.h"
#include "element.h"
#include "radix_sort.h"

struct top_k_params {
    int64_t columns;  /* elements of a row */
    int64_t kept;     /* of them, 1 or more */
    int64_t capacity; /* of the reservoir: all columns, or at least TOP_K_ROOM more than are kept */
};

#define TOP_K_FEW 32   /* kept elements for which insertion is faster than a reservoir */
#define TOP_K_BLOCK 16 /* elements that are compared at once */
#define TOP_K_ROOM 64

/* What is larger has a smaller key; NaN have the largest. */
CIRCLET_INLINE uint64_t top_k_key(const void *from, int64_t i, int type) {
    if (type == ELEMENT_F32) return radix_falling_key_f32(((const float *)from)[i]);
    if (type == ELEMENT_F64) return radix_falling_key_f64(((const double *)from)[i]);
    if (type == ELEMENT_I64) return (uint64_t)((const int64_t *)from)[i] ^ (uint64_t)INT64_MAX;
    if (type == ELEMENT_U8) return UINT8_MAX - ((const uint8_t *)from)[i];
    if (type == ELEMENT_I8) return (uint32_t)(INT8_MAX - ((const int8_t *)from)[i]);
    if (type == ELEMENT_I16) return (uint32_t)(INT16_MAX - ((const int16_t *)from)[i]);
    return (uint32_t)((const int32_t *)from)[i] ^ (uint32_t)INT32_MAX;
}

CIRCLET_INLINE int top_k_key_size(int type) { return element_size(type) == 8 ? 8 : 4; }

/* Elements that may be among the largest, in the order of their places, or sorted where few are
 * kept. An element that comes later is not among the largest unless its key is below the limit. */
typedef struct top_k_reservoir {
    radix_list list;
    int64_t count;
    uint64_t limit;
} top_k_reservoir;

/* Keeps the `kept` smallest keys, of equal ones the first, or some more, up to `most`: digits below
 * the highest that differ are looked at until so few are left (radix selection). */
CIRCLET_INLINE void top_k_cut(top_k_reservoir *r, int64_t kept, int64_t most, int size) {
    const radix_list list = r->list;
    uint64_t low = radix_key(list, 0, size), differing = radix_differing(list, r->count, size);
    int bits = differing ? 64 - __builtin_clzll(differing) : 0, shift = 0;
    low &= ~(bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
    int64_t below = 0; /* keys below `low` */
    for (; bits; bits = shift) {
        int32_t counts[RADIX + 1] = {0}, digit = 0; /* the last for keys of other digits above */
        shift = bits > RADIX_BITS ? bits - RADIX_BITS : 0;
        for (int64_t i = 0; i < r->count; i++) {
            uint64_t at = (radix_key(list, i, size) - low) >> shift;
            counts[at < RADIX ? at : RADIX]++;
        }
        while (below + counts[digit] < kept) below += counts[digit++];
        int64_t within = counts[digit];
        low += (uint64_t)digit << shift;
        if (below + within <= most) break;
    }
    int64_t equal = shift ? 0 : kept - below, count = 0;
    r->limit = shift ? low + ((uint64_t)1 << shift) : low;
    for (int64_t i = 0; i < r->count; i++) {
        uint64_t key = radix_key(list, i, size);
        radix_set(list, count, key, list.place[i], size);
        int is_equal = key == r->limit && equal > 0;
        equal -= is_equal;
        count += key < r->limit || is_equal;
    }
    r->count = count;
}

/* Puts an element where it belongs in a sorted list that holds `kept` at most. */
CIRCLET_INLINE void top_k_insert(top_k_reservoir *r, uint64_t key, int64_t place, int64_t kept,
                                 int size) {
    int64_t at = r->count < kept ? r->count++ : kept - 1;
    for (; at > 0 && key < radix_key(r->list, at - 1, size); at--)
        radix_set(r->list, at, radix_key(r->list, at - 1, size), r->list.place[at - 1], size);
    radix_set(r->list, at, key, (int32_t)place, size);
    if (r->count == kept) r->limit = radix_key(r->list, kept - 1, size);
}

typedef union top_k_keys {
    uint32_t of_4[TOP_K_BLOCK];
    uint64_t of_8[TOP_K_BLOCK];
} top_k_keys;

/* Keeps those of n keys, of places from `from` on, that are below the limit. */
CIRCLET_INLINE void top_k_append(top_k_reservoir *r, const top_k_keys *keys, int64_t from,
                                 int64_t n, int size) {
    const radix_list block = {(void *)keys, 0};
    int64_t i = 0;
    if (size == 4)
        for (; i + CIRCLET_LANES <= n; i += CIRCLET_LANES) {
            vi key = v_load_i32((const int32_t *)keys->of_4 + i);
            vi below = (vi)((vu)key < (vu)v_splat_i32((int32_t)r->limit));
            vi place = v_iota() + v_splat_i32((int32_t)(from + i));
            v_compress_i32((int32_t *)r->list.key + r->count, key, below);
            r->count += v_compress_i32(r->list.place + r->count, place, below);
        }
    for (; i < n; i++) {
        uint64_t key = radix_key(block, i, size);
        radix_set(r->list, r->count, key, (int32_t)(from + i), size);
        r->count += key < r->limit;
    }
}

/* Takes what is below the limit of the next n <= TOP_K_BLOCK elements. */
CIRCLET_INLINE void top_k_block(top_k_reservoir *r, const void *row, int64_t from, int64_t n,
                                int64_t kept, int type, int is_few) {
    const int size = top_k_key_size(type);
    const uint64_t limit = r->limit;
    top_k_keys keys;
    const radix_list block = {&keys, 0};
    int is_any = 0;
    for (int64_t i = 0; i < n; i++) {
        if (size == 8) is_any |= (keys.of_8[i] = top_k_key(row, from + i, type)) < limit;
        else is_any |= (keys.of_4[i] = (uint32_t)top_k_key(row, from + i, type)) < (uint32_t)limit;
    }
    if (!is_any) return;
    if (!is_few) {
        top_k_append(r, &keys, from, n, size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = radix_key(block, i, size);
        if (key < r->limit) top_k_insert(r, key, from + i, kept, size);
    }
}

/* The first elements, whatever they are: 0 where the run is to end. */
CIRCLET_INLINE int top_k_fill(top_k_reservoir *r, const void *row, int64_t count, int64_t kept,
                              int type, int is_few, stop_count *stop) {
    const int size = top_k_key_size(type);
    for (int64_t i = 0; i < count;) {
        for (int64_t end = s_min_i64(i + RADIX_RUN, count); i < end; i++) {
            uint64_t key = top_k_key(row, i, type);
            if (is_few) top_k_insert(r, key, i, kept, size);
            else radix_set(r->list, r->count++, key, (int32_t)i, size);
        }
        if (stop_after(stop, RADIX_RUN)) return 0;
    }
    return 1;
}

/* Gathers the largest of a row, in the order of their places where not few are kept: 0 where the
 * run is to end. */
CIRCLET_INLINE int top_k_gather(top_k_reservoir *r, const void *row, int64_t columns, int64_t kept,
                                int64_t capacity, int type, int is_few, stop_count *stop) {
    const int size = top_k_key_size(type);
    const int64_t most = kept + (capacity - kept) / 4;
    int64_t i = s_min_i64(is_few ? kept : capacity, columns);
    if (!top_k_fill(r, row, i, kept, type, is_few, stop)) return 0;
    for (int64_t n; i < columns; i += n) {
        if (!is_few && r->count > capacity - TOP_K_BLOCK) {
            if (stop_after(stop, r->count)) return 0;
            top_k_cut(r, kept, most, size);
        }
        n = columns - i < TOP_K_BLOCK ? 1 : TOP_K_BLOCK;
        if (n == 1) top_k_block(r, row, i, 1, kept, type, is_few);
        else top_k_block(r, row, i, TOP_K_BLOCK, kept, type, is_few);
        if (stop_after(stop, TOP_K_BLOCK)) return 0;
    }
    if (!is_few && r->count > kept) top_k_cut(r, kept, kept, size);
    return 1;
}

/* Keys in the order of `top_k_key` of n elements of up to 4 bytes, as signed integers. */
CIRCLET_INLINE vi top_k_lanes(const void *at, int64_t n, int type) {
    if (type != ELEMENT_F32) return ~element_load_i32(at, n, type);
    vf x = element_load_f32(at, n, type);
    vi bits = v_select_i32((vi)(((vi)x << 1) == v_zero_i32()), v_zero_i32(), (vi)x);
    return v_select_i32((vi)(x == x), ~(bits ^ (bits >> 31 & INT32_MAX)), v_splat_i32(INT32_MAX));
}

/* The place of the largest element, of equal ones the first. Each lane holds its own first best. */
CIRCLET_INLINE int32_t top_k_first(const void *row, int64_t columns, int type) {
    vi best = v_splat_i32(INT32_MAX), place = v_zero_i32(), here = v_iota();
    for (int64_t i = 0; i < columns; i += CIRCLET_LANES, here += CIRCLET_LANES) {
        int64_t n = s_min_i64(CIRCLET_LANES, columns - i);
        vi key = top_k_lanes((const char *)row + i * element_size(type), n, type);
        if (n < CIRCLET_LANES) key = v_select_i32(v_lane_mask(n), key, v_splat_i32(INT32_MAX));
        vi better = (vi)(key < best);
        best = v_select_i32(better, key, best), place = v_select_i32(better, here, place);
    }
    vi top = v_splat_i32(v_fold_min_i32(best));
    return v_fold_min_i32(v_select_i32((vi)(best == top), place, v_splat_i32(INT32_MAX)));
}

CIRCLET_INLINE void top_k_put(void *values, int64_t to, const void *row, int64_t from, int size) {
    if (size == 8) ((uint64_t *)values)[to] = ((const uint64_t *)row)[from];
    if (size == 4) ((uint32_t *)values)[to] = ((const uint32_t *)row)[from];
    if (size == 2) ((uint16_t *)values)[to] = ((const uint16_t *)row)[from];
    if (size == 1) ((uint8_t *)values)[to] = ((const uint8_t *)row)[from];
}

/* Operands: source, values, indices, circlet_stop, and how many of the columns are filled and how
 * many elements are kept of them, both null for all. A task is one row. The scratch memory holds
 * a list of `capacity` keys and places, and one of `kept`. */
CIRCLET_INLINE void top_k(const struct top_k_params *p, void *const *x, void *scratch,
                          int64_t begin, int64_t end, int type, int index_size) {
    const int64_t columns = bounded_count(x[4], p->columns), size = element_size(type);
    const int64_t kept = s_min_i64(bounded_count(x[5], p->kept), columns);
    const int key_size = top_k_key_size(type);
    char *keys = scratch, *places = keys + (p->capacity + p->kept) * key_size;
    const radix_list list = {keys, (int32_t *)places};
    const radix_list other = {keys + p->capacity * key_size, list.place + p->capacity};
    stop_count stop = stop_start(x[3]);
    for (int64_t task = begin; task < end && kept; task++) {
        const char *row = (const char *)x[0] + task * p->columns * size;
        char *values = (char *)x[1] + task * p->kept * size;
        char *indices = (char *)x[2] + task * p->kept * index_size;
        top_k_reservoir r = {list, 0, 0};
        if (kept == 1 && key_size == 4) {
            list.place[0] = top_k_first(row, columns, type);
            if (stop_after(&stop, columns)) return;
        } else if (kept <= TOP_K_FEW) {
            if (!top_k_gather(&r, row, columns, kept, p->capacity, type, 1, &stop)) return;
        } else {
            if (!top_k_gather(&r, row, columns, kept, p->capacity, type, 0, &stop)) return;
            r.list = radix_sorted(list, other, kept, key_size, &stop);
            if (stop_after(&stop, 0)) return;
        }
        for (int64_t i = 0; i < kept;) {
            for (int64_t run_end = s_min_i64(i + RADIX_RUN, kept); i < run_end; i++) {
                top_k_put(values, i, row, r.list.place[i], (int)size);
                if (index_size == 2) ((int16_t *)indices)[i] = (int16_t)r.list.place[i];
                else ((int32_t *)indices)[i] = r.list.place[i];
            }
            if (stop_after(&stop, RADIX_RUN)) return;
        }
    }
}

#endif
