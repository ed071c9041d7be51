/* Rows of elements in several passes, each over values that earlier passes reduced.
 *
 * Generated code holds one function per pass; `row` are values of the whole row in all lanes.
 */
#ifndef CIRCLET_ROW_PASSES_H
#define CIRCLET_ROW_PASSES_H

#include "reduce.h"
#include "wide.h"

#define ELEMENTWISE_INTS 32
#define ELEMENTWISE_FLOATS 16
#define ROW_PASS_SUMS 4 /* reductions of one pass */
#define ROW_PASS_FLIGHT 4 /* vectors whose latencies overlap */
#define ROW_PASS_VALUES 40 /* of a whole row; of a vector that are stored */
#define ROW_PASS_KEPT(count) (((count) + CIRCLET_LANES) * 4) /* bytes of a row in scratch */

/* A copy of the parameters that stores through operands cannot change. */
typedef struct elementwise_values {
    int32_t ints[ELEMENTWISE_INTS];
    float floats[ELEMENTWISE_FLOATS];
} elementwise_values;

CIRCLET_INLINE elementwise_values elementwise_copied(const int32_t *ints, const float *floats) {
    elementwise_values v;
    __builtin_memcpy(v.ints, ints, sizeof v.ints);
    __builtin_memcpy(v.floats, floats, sizeof v.floats);
    return v;
}

/* What a vector's elements are stored from. */
typedef union row_pass_value {
    vf f32;
    vi i32;
    wl i64;
} row_pass_value;

/* Computes n <= CIRCLET_LANES elements from element i on; `sum` are this vector's reductions,
 * `out` what it stores. */
typedef void (*row_pass)(const elementwise_values *v, char *const *at, const vf *row, vf *sum,
                         row_pass_value *out, int64_t i, int64_t n);
typedef void (*row_pass_store)(char *const *at, const row_pass_value *out, int64_t i, int64_t n);

/* Lanes behind the n-th as the start of a reduction. */
CIRCLET_INLINE vf row_pass_kept(vf x, int64_t n, int kind) {
    if (n == CIRCLET_LANES) return x;
    return v_select(v_lane_mask(n), x, reduce_start_f32(kind));
}

/* What a pass gathers: `sums` results, each of which `kinds` says how to reduce. */
typedef struct row_pass_sums {
    vf part[ROW_PASS_FLIGHT * ROW_PASS_SUMS];
} row_pass_sums;

CIRCLET_INLINE void row_pass_begin(row_pass_sums *s, const int *kinds, const int sums) {
    CIRCLET_UNROLL for (int k = 0; k < sums; k++)
        CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
            s->part[u * ROW_PASS_SUMS + k] = reduce_start_f32(kinds[k]);
}

CIRCLET_INLINE void row_pass_one(const elementwise_values *v, char *const *at, const vf *row,
                                 vf *sum, int64_t i, int64_t n, row_pass pass,
                                 row_pass_store store) {
    row_pass_value out[ROW_PASS_VALUES];
    pass(v, at, row, sum, out, i, n);
    store(at, out, i, n);
}

/* One step of a pass: vectors whose chains of operations overlap. On Arm all are computed before one
 * is stored: loads that no store may change, and stores, are instructions of two registers. */
CIRCLET_INLINE void row_pass_step(const elementwise_values *v, char *const *at, const vf *row,
                                  row_pass_sums *s, int64_t i, row_pass pass,
                                  row_pass_store store) {
#if defined(__aarch64__)
    row_pass_value out[ROW_PASS_FLIGHT][ROW_PASS_VALUES];
    CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
        pass(v, at, row, s->part + u * ROW_PASS_SUMS, out[u], i + u * CIRCLET_LANES, CIRCLET_LANES);
    CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
        store(at, out[u], i + u * CIRCLET_LANES, CIRCLET_LANES);
#else
    CIRCLET_UNROLL for (int u = 0; u < ROW_PASS_FLIGHT; u++)
        row_pass_one(v, at, row, s->part + u * ROW_PASS_SUMS, i + u * CIRCLET_LANES, CIRCLET_LANES,
                     pass, store);
#endif
}

/* What steps leave of a row, from element i on. */
CIRCLET_INLINE void row_pass_rest(const elementwise_values *v, char *const *at, const vf *row,
                                  row_pass_sums *s, int64_t i, int64_t count, row_pass pass,
                                  row_pass_store store) {
    CIRCLET_NO_UNROLL for (; i + CIRCLET_LANES <= count; i += CIRCLET_LANES)
        row_pass_one(v, at, row, s->part, i, CIRCLET_LANES, pass, store);
    if (i < count) row_pass_one(v, at, row, s->part, i, count - i, pass, store);
}

CIRCLET_INLINE void row_pass_end(const row_pass_sums *s, vf *total, const int *kinds,
                                 const int sums) {
    CIRCLET_UNROLL for (int k = 0; k < sums; k++) {
        const vf *part = s->part + k;
        vf a = reduce_join_f32(part[0], part[ROW_PASS_SUMS], kinds[k]);
        vf b = reduce_join_f32(part[2 * ROW_PASS_SUMS], part[3 * ROW_PASS_SUMS], kinds[k]);
        total[k] = v_splat(reduce_fold_f32(reduce_join_f32(a, b, kinds[k]), kinds[k]));
    }
}

/* Runs a pass over a row. Sums go to one set of registers for each vector in flight, joined in
 * pairs. */
CIRCLET_INLINE void row_pass_run(const elementwise_values *v, char *const *at, const vf *row,
                                 vf *total, const int *kinds, const int sums, int64_t count,
                                 row_pass pass, row_pass_store store) {
    row_pass_sums s;
    int64_t i = 0, step = CIRCLET_LANES * ROW_PASS_FLIGHT, last = count - step;
    row_pass_begin(&s, kinds, sums);
    for (; sums && i <= last; i += step) row_pass_step(v, at, row, &s, i, pass, store);
    row_pass_rest(v, at, row, &s, i, count, pass, store);
    row_pass_end(&s, total, kinds, sums);
}

/* Runs the last pass over a row and the first one over `begun` elements of the next, in step: reads
 * from far memory and writes to it overlap. Sums as `row_pass_run` does. */
CIRCLET_INLINE void row_pass_overlapped(const elementwise_values *v, char *const *at,
                                        const vf *row, int64_t count, row_pass last,
                                        row_pass_store last_store, char *const *next,
                                        const vf *ahead, vf *total, const int *kinds,
                                        const int sums, int64_t begun, row_pass first,
                                        row_pass_store first_store) {
    row_pass_sums s, none;
    int64_t i = 0, step = CIRCLET_LANES * ROW_PASS_FLIGHT, both = begun - step;
    row_pass_begin(&s, kinds, sums);
    for (; i <= both; i += step) {
        row_pass_step(v, next, ahead, &s, i, first, first_store);
        row_pass_step(v, at, row, &none, i, last, last_store);
    }
    row_pass_rest(v, next, ahead, &s, i, begun, first, first_store);
    row_pass_rest(v, at, row, &none, i, count, last, last_store);
    row_pass_end(&s, total, kinds, sums);
}

#endif
