/* Numbers of which the largest is found again and again while they fall: the largest of each block
 * is kept, so that only one block is looked at anew when a number changes. */
#ifndef CIRCLET_RANKING_H
#define CIRCLET_RANKING_H

#include "simd.h"

#define RANKING_BLOCK 64
#define RANKING_NONE (-__builtin_inff()) /* what is not to be found */

/* `value` is followed by the largest of each block; neither may hold NaN. */
typedef struct ranking {
    float *value, *best;
    int64_t places, blocks; /* in whole blocks, in whole vectors */
} ranking;

CIRCLET_INLINE int64_t ranking_whole(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

CIRCLET_INLINE float ranking_most(const float *from, int64_t count) {
    vf best = v_load(from);
    for (int64_t i = CIRCLET_LANES; i < count; i += CIRCLET_LANES)
        best = v_max(v_load(from + i), best);
    return v_fold_max(best);
}

/* Where a number that is there stands first. */
CIRCLET_INLINE int64_t ranking_find(const float *from, int64_t count, float value) {
    vi found = v_splat_i32(INT32_MAX), place = v_iota();
    for (int64_t i = 0; i < count; i += CIRCLET_LANES) {
        vi same = (vi)(v_load(from + i) == v_splat(value));
        found = v_min_i32(v_select_i32(same, place, found), found);
        place += CIRCLET_LANES;
    }
    return v_fold_min_i32(found);
}

CIRCLET_INLINE void ranking_change(const ranking *r, int64_t place, float value) {
    int64_t block = place / RANKING_BLOCK;
    r->value[place] = value;
    r->best[block] = ranking_most(r->value + block * RANKING_BLOCK, RANKING_BLOCK);
}

/* Over `count` numbers that stand at the start of memory for 17 / 16 as many and 128 more. */
CIRCLET_INLINE ranking ranking_of(float *memory, int64_t count) {
    int64_t places = ranking_whole(count, RANKING_BLOCK), blocks = places / RANKING_BLOCK;
    ranking r = {memory, memory + places, places, ranking_whole(blocks, CIRCLET_LANES)};
    for (int64_t i = count; i < places; i++) r.value[i] = RANKING_NONE;
    for (int64_t i = 0; i < blocks; i++)
        r.best[i] = ranking_most(r.value + i * RANKING_BLOCK, RANKING_BLOCK);
    for (int64_t i = blocks; i < r.blocks; i++) r.best[i] = RANKING_NONE;
    return r;
}

/* The place of the largest number, the first of equal ones; -1 where none is left. */
CIRCLET_INLINE int64_t ranking_first(const ranking *r) {
    float most = r->blocks ? ranking_most(r->best, r->blocks) : RANKING_NONE;
    if (most == RANKING_NONE) return -1;
    int64_t start = ranking_find(r->best, r->blocks, most) * RANKING_BLOCK;
    return start + ranking_find(r->value + start, RANKING_BLOCK, most);
}

#endif
