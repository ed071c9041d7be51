/* A priority queue over numbers at fixed indices that fall: the largest of each block is kept,
 * so that a change costs one block and finding the largest the maxima and one block, all in
 * vectors. A heap would move indices about, one at a time. */
#ifndef CIRCLET_PRIORITY_QUEUE_H
#define CIRCLET_PRIORITY_QUEUE_H

#include "simd.h"

#define QUEUE_BLOCK 64
#define QUEUE_NONE (-__builtin_inff()) /* what is not to be found */

/* `value` is followed by the largest of each block; neither may hold NaN. */
typedef struct priority_queue {
    float *value, *best;
    int64_t count, blocks; /* in whole blocks, in whole vectors */
} priority_queue;

CIRCLET_INLINE int64_t queue_round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

CIRCLET_INLINE float queue_max(const float *from, int64_t count) {
    vf best = v_load(from);
    for (int64_t i = CIRCLET_LANES; i < count; i += CIRCLET_LANES)
        best = v_max(v_load(from + i), best);
    return v_fold_max(best);
}

/* The first index of a number that is there. */
CIRCLET_INLINE int64_t queue_find(const float *from, int64_t count, float value) {
    vi found = v_splat_i32(INT32_MAX), index = v_iota();
    for (int64_t i = 0; i < count; i += CIRCLET_LANES) {
        vi same = (vi)(v_load(from + i) == v_splat(value));
        found = v_min_i32(v_select_i32(same, index, found), found);
        index += CIRCLET_LANES;
    }
    return v_fold_min_i32(found);
}

CIRCLET_INLINE void queue_update(const priority_queue *r, int64_t index, float value) {
    int64_t block = index / QUEUE_BLOCK;
    r->value[index] = value;
    r->best[block] = queue_max(r->value + block * QUEUE_BLOCK, QUEUE_BLOCK);
}

/* Over `count` numbers that stand at the start of memory for 17 / 16 as many and 128 more. */
CIRCLET_INLINE priority_queue queue_over(float *memory, int64_t count) {
    int64_t whole = queue_round_up(count, QUEUE_BLOCK), blocks = whole / QUEUE_BLOCK;
    priority_queue r = {memory, memory + whole, whole, queue_round_up(blocks, CIRCLET_LANES)};
    for (int64_t i = count; i < whole; i++) r.value[i] = QUEUE_NONE;
    for (int64_t i = 0; i < blocks; i++)
        r.best[i] = queue_max(r.value + i * QUEUE_BLOCK, QUEUE_BLOCK);
    for (int64_t i = blocks; i < r.blocks; i++) r.best[i] = QUEUE_NONE;
    return r;
}

/* The index of the largest number, the first of equal ones; -1 where none is left. */
CIRCLET_INLINE int64_t queue_top(const priority_queue *r) {
    float most = r->blocks ? queue_max(r->best, r->blocks) : QUEUE_NONE;
    if (most == QUEUE_NONE) return -1;
    int64_t start = queue_find(r->best, r->blocks, most) * QUEUE_BLOCK;
    return start + queue_find(r->value + start, QUEUE_BLOCK, most);
}

#endif
