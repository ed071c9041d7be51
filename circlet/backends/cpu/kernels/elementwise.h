/* Generated expressions over any number of strided operands.
 *
 * The prelude of a kernel holds the function for one inner run. The names below are those that
 * expressions are printed with.
 */
#ifndef CIRCLET_ELEMENTWISE_H
#define CIRCLET_ELEMENTWISE_H

#include "element.h"
#include "fixed.h"
#include "row_passes.h"
#include "rows.h"
#include "wide.h"

#define ELEMENTWISE_OPERANDS 12

struct elementwise_params {
    struct row_loops rows;
    int64_t strides[84];   /* bytes, of each operand in turn; the last one's is of the inner loop */
    int32_t ints[32];      /* the expression's parameters */
    float floats[16];      /* the expression's parameters */
};

/* The first n lanes over and over: n is a power of two, a literal. */
#if CIRCLET_LANES == 16
#define CIRCLET_CYCLE(x, n)                                                                    \
    __builtin_shufflevector(x, x, 0 % (n), 1 % (n), 2 % (n), 3 % (n), 4 % (n), 5 % (n), 6 % (n), \
                            7 % (n), 8 % (n), 9 % (n), 10 % (n), 11 % (n), 12 % (n), 13 % (n), \
                            14 % (n), 15 % (n))
#elif CIRCLET_LANES == 8
#define CIRCLET_CYCLE(x, n)                                                                    \
    __builtin_shufflevector(x, x, 0 % (n), 1 % (n), 2 % (n), 3 % (n), 4 % (n), 5 % (n), 6 % (n), \
                            7 % (n))
#else
#define CIRCLET_CYCLE(x, n) __builtin_shufflevector(x, x, 0 % (n), 1 % (n), 2 % (n), 3 % (n))
#endif

/* Does elements begin to end of one inner run. */
typedef void (*elementwise_row)(const elementwise_values *v, char *const *at, int64_t begin,
                                int64_t end);

CIRCLET_INLINE vi v_mask_f32(vi mask) { return mask; }
CIRCLET_INLINE vi v_mask_i32(vi mask) { return mask; }
CIRCLET_INLINE vf v_select_f32(vi mask, vf a, vf b) { return v_select(mask, a, b); }
/* The first operand where it is NaN, so that clamps keep NaN. */
CIRCLET_INLINE vf v_min_f32(vf a, vf b) { return v_min(b, a); }
CIRCLET_INLINE vf v_max_f32(vf a, vf b) { return v_max(b, a); }
CIRCLET_INLINE vf v_abs_f32(vf a) { return v_abs(a); }
CIRCLET_INLINE vi v_abs_i32(vi a) { return (a ^ (a >> 31)) - (a >> 31); }
CIRCLET_INLINE vf v_round_half_away(vf a) { return v_round_away(a); }

/* x / scale to the nearest whole number within low..high, halves away from zero; 0 for NaN. The
 * product with 1 / scale is within 2e-7 of the quotient: only near halves do they round apart. */
CIRCLET_INLINE vi v_nearest_ratio(vf x, vf scale, vf low, vf high) {
    const vf shift = v_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    vf inverse = v_splat(1.0f) / scale;
    vi is_normal = (vi)(inverse > v_splat(1e-37f)) & (vi)(inverse < v_splat(__builtin_inff()));
    vf most = v_select(is_normal, v_splat(0.49999f), v_splat(-1.0f));
    vf y = v_clamp(x * inverse, low, high);
    vf bound = v_fma(v_abs(y), v_splat(-2.5e-7f), most);
    vf shifted = y + shift;
    vf off = v_abs(y - (shifted - shift));
    if (CIRCLET_LIKELY(v_all((vi)(off < bound)))) return (vi)shifted - (vi)shift;
    y = x / scale;
    y = v_clamp(v_select((vi)(y == y), y, v_zero()), low, high);
    /* Adding a half itself would move 0.49999997 up. */
    return v_to_i32(y + v_copysign(v_splat(0.49999997f), y));
}

/* Elements begin to end by a body, which is given what stays the same all along. The tail is a
 * masked run of the same code: an element's result does not depend on its position. */
#define ELEMENTWISE_LOOP(body, ...)                                                          \
    int64_t i = begin;                                                                       \
    for (; i + CIRCLET_LANES <= end; i += CIRCLET_LANES)                                     \
        body(v, at, i, CIRCLET_LANES __VA_ARGS__);                                           \
    if (i < end) body(v, at, i, end - i __VA_ARGS__);

/* Operands: the inputs, then the outputs of `compute`. */
CIRCLET_INLINE void elementwise(const struct elementwise_params *p, void *const *x, void *scratch,
                                int64_t begin, int64_t end, int operands,
                                elementwise_row compute) {
    elementwise_values values = elementwise_copied(p->ints, p->floats);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first, run; row < span.last; row += run) {
            char *at[ELEMENTWISE_OPERANDS];
            run = rows_run(row, span.last, p->rows.sizes);
            CIRCLET_UNROLL for (int k = 0; k < operands; k++)
                at[k] = (char *)x[k] +
                        rows_offset(row, p->rows.sizes, p->strides + k * ROWS_STRIDES);
            for (int64_t i = 0; i < run; i++) {
                compute(&values, at, span.begin, span.end);
                CIRCLET_UNROLL for (int k = 0; k < operands; k++)
                    at[k] += p->strides[k * ROWS_STRIDES + 5];
            }
        }
    }
}

#endif
