/* Rows of elements in several passes, each over values that earlier passes reduced.
 *
 * Generated code holds one function per pass; `row` are values of the whole row in all lanes.
 */
#ifndef CIRCLET_ROW_PASSES_H
#define CIRCLET_ROW_PASSES_H

#include "reduce.h"

#define ELEMENTWISE_INTS 32
#define ELEMENTWISE_FLOATS 16
#define ROW_PASS_SUMS 4 /* reductions of one pass */
#define ROW_PASS_FLIGHT 4
#define ROW_PASS_KEPT(count) (((count) + CIRCLET_LANES) * 4) /* bytes of a row in scratch */

/* A copy of the parameters that stores through operands cannot change. */
typedef struct elementwise_values {
    int32_t ints[ELEMENTWISE_INTS];
    float floats[ELEMENTWISE_FLOATS];
} elementwise_values;

/* Computes n <= CIRCLET_LANES elements from element i on; `sum` are this vector's reductions. */
typedef void (*row_pass)(const elementwise_values *v, char *const *at, const vf *row, vf *sum,
                         int64_t i, int64_t n);

/* Lanes behind the n-th as the start of a reduction. */
CIRCLET_INLINE vf row_pass_kept(vf x, int64_t n, int kind) {
    if (n == CIRCLET_LANES) return x;
    return v_select(v_lane_mask(n), x, reduce_start_f32(kind));
}

/* Walks a row; `kinds` says what each of `sums` results reduces by. */
CIRCLET_INLINE void row_pass_walk(const elementwise_values *v, char *const *at, const vf *row,
                                  vf *total, const int *kinds, const int sums, int64_t count,
                                  row_pass pass) {
    vf part[ROW_PASS_FLIGHT * ROW_PASS_SUMS];
    int64_t i = 0, step = CIRCLET_LANES * ROW_PASS_FLIGHT;
    CIRCLET_UNROLL for (int s = 0; s < sums; s++)
        CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
            part[u * ROW_PASS_SUMS + s] = reduce_start_f32(kinds[s]);
    for (; sums && i + step <= count; i += step)
        CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
            pass(v, at, row, part + u * ROW_PASS_SUMS, i + u * CIRCLET_LANES, CIRCLET_LANES);
    CIRCLET_NO_UNROLL for (; i + CIRCLET_LANES <= count; i += CIRCLET_LANES)
        pass(v, at, row, part, i, CIRCLET_LANES);
    if (i < count) pass(v, at, row, part, i, count - i);
    CIRCLET_UNROLL for (int s = 0; s < sums; s++) {
        vf a = reduce_join_f32(part[s], part[ROW_PASS_SUMS + s], kinds[s]);
        vf b = reduce_join_f32(part[2 * ROW_PASS_SUMS + s], part[3 * ROW_PASS_SUMS + s], kinds[s]);
        total[s] = v_splat(reduce_fold_f32(reduce_join_f32(a, b, kinds[s]), kinds[s]));
    }
}

#endif
