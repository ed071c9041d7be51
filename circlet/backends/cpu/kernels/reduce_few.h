/* Reductions that keep few elements, as the channels of an image of 3: rows are met as many at a
 * time as a vector has lanes, which fill whole vectors. Of integers alone, whose sums are the same
 * in any order. */
#ifndef CIRCLET_REDUCE_FEW_H
#define CIRCLET_REDUCE_FEW_H

#include "reduction.h"

#define REDUCE_FEW 64  /* kept elements, at most */
#define REDUCE_RUN 256 /* rows that a run has at least */

CIRCLET_INLINE int reduce_keeps_few(const struct reduce_params *p, int type) {
    return type != ELEMENT_F32 && p->inner <= REDUCE_FEW && p->inner % CIRCLET_LANES != 0 &&
           p->steps[3] == p->inner * element_size(type) && p->reduced[3] >= REDUCE_RUN;
}

/* Rows of a run, a whole number of sets of as many as there are lanes. */
CIRCLET_INLINE void reduce_sets_of_rows(const char *from, int64_t rows, int64_t kept, vi *sets,
                                        int kind, int type) {
    const int64_t bytes = CIRCLET_LANES * element_size(type);
    for (int64_t row = 0; row < rows; row += CIRCLET_LANES)
        for (int64_t r = 0; r < kept; r++, from += bytes)
            sets[r] = reduce_join_i32(sets[r], element_load_i32(from, CIRCLET_LANES, type), kind);
}

CIRCLET_INLINE void reduce_few(const struct reduce_params *p, const char *from, char *to, int kind,
                               int type, int requantises) {
    const int64_t kept = p->inner, size = element_size(type), rows = p->reduced[3];
    const int64_t met = rows / CIRCLET_LANES * CIRCLET_LANES; /* in sets; the rest one by one */
    vi sets[REDUCE_FEW];
    for (int64_t r = 0; r < kept; r++) sets[r] = reduce_start_i32(kind);
    for (int64_t run = 0; run < reduce_runs(p); run++)
        reduce_sets_of_rows(from + reduce_offset(p, run), met, kept, sets, kind, type);
    for (int64_t c = 0; c < kept; c += CIRCLET_LANES) {
        const int64_t n = s_min_i64(CIRCLET_LANES, kept - c);
        vi s = reduce_start_i32(kind);
        for (int64_t lane = 0; lane < CIRCLET_LANES; lane++)
            s = reduce_join_i32(s, v_load_n_i32((const int32_t *)sets + lane * kept + c, n), kind);
        for (int64_t run = 0; run < reduce_runs(p); run++)
            for (int64_t row = met; row < rows; row++) {
                const char *at = from + reduce_offset(p, run) + (row * kept + c) * size;
                s = reduce_join_i32(s, element_load_i32(at, n, type), kind);
            }
        reduce_store_i32(p, to + c * size, s, n, type, requantises);
    }
}

#endif
