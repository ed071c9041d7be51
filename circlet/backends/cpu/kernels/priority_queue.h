/* A priority queue over numbers at fixed indices that fall: the largest of each block is kept, and
 * the largest of each block of these, so that a change and finding the largest cost a few blocks,
 * all in vectors. A heap would move indices about, one at a time. */
#ifndef CIRCLET_PRIORITY_QUEUE_H
#define CIRCLET_PRIORITY_QUEUE_H

#include "simd.h"

#define QUEUE_BLOCK 64
#define QUEUE_LEVELS 6 /* enough for 2^36 numbers */
#define QUEUE_NONE (-__builtin_inff()) /* what is not to be found */

/* The numbers are the first level; the largest of the blocks of each level are the next, the last
 * one block at most. Each stands behind the one before. Numbers must not be NaN. */
typedef struct priority_queue {
    float *level[QUEUE_LEVELS];
    int64_t count[QUEUE_LEVELS]; /* in whole vectors; in whole blocks below the last level */
    int last;
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
    r->level[0][index] = value;
    for (int l = 1; l <= r->last; l++) {
        index /= QUEUE_BLOCK;
        r->level[l][index] = queue_max(r->level[l - 1] + index * QUEUE_BLOCK, QUEUE_BLOCK);
    }
}

/* Over `count` numbers that stand at the start of memory for 17 / 16 as many and 128 more. */
CIRCLET_INLINE priority_queue queue_over(float *memory, int64_t count) {
    priority_queue r = {{memory}, {count}, 0};
    for (;; r.last++) {
        float *level = r.level[r.last];
        int64_t held = r.count[r.last], blocks = (held + QUEUE_BLOCK - 1) / QUEUE_BLOCK;
        int64_t whole = queue_round_up(held, blocks > 1 ? QUEUE_BLOCK : CIRCLET_LANES);
        for (int64_t i = held; i < whole; i++) level[i] = QUEUE_NONE;
        r.count[r.last] = whole;
        if (blocks <= 1) return r;
        r.level[r.last + 1] = level + whole;
        r.count[r.last + 1] = blocks;
        for (int64_t i = 0; i < blocks; i++)
            level[whole + i] = queue_max(level + i * QUEUE_BLOCK, QUEUE_BLOCK);
    }
}

/* The index of the largest number, the first of equal ones; -1 where none is left. */
CIRCLET_INLINE int64_t queue_top(const priority_queue *r) {
    int64_t index = 0, count = r->count[r->last];
    float most = count ? queue_max(r->level[r->last], count) : QUEUE_NONE;
    if (most == QUEUE_NONE) return -1;
    for (int l = r->last; l >= 0; l--, count = QUEUE_BLOCK) {
        const float *block = r->level[l] + index * QUEUE_BLOCK;
        index = index * QUEUE_BLOCK + queue_find(block, count, most);
    }
    return index;
}

#endif
