/* Elements of one of two operands by a condition. All strides are in bytes. */
#ifndef CIRCLET_SELECT_H
#define CIRCLET_SELECT_H

#include "rows.h"
#include "transpose.h"

struct select_elements_params {
    struct row_loops rows;
    int64_t condition[7];  /* strides */
    int64_t first[7];      /* strides */
    int64_t second[7];     /* strides */
    int64_t result[7];     /* strides */
};

#define SELECT_RUN(type)                                              \
    for (int64_t i = 0; i < n; i++) {                                 \
        type a = ((const type *)first)[one_a ? 0 : i];                \
        type b = ((const type *)second)[one_b ? 0 : i];               \
        ((type *)to)[i] = condition[one_condition ? 0 : i] ? a : b;   \
    }

/* The flags say which operands have one element for the whole run. */
CIRCLET_INLINE void select_run(char *to, const uint8_t *condition, const char *first,
                               const char *second, int64_t n, int size, int one_condition,
                               int one_a, int one_b) {
    if (size == 8) SELECT_RUN(copy_u64)
    if (size == 4) SELECT_RUN(copy_u32)
    if (size == 2) SELECT_RUN(copy_u16)
    if (size == 1) SELECT_RUN(uint8_t)
}

/* Operands: condition, first, second, result. */
CIRCLET_INLINE void select_elements(const struct select_elements_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int size,
                                    int one_condition, int one_a, int one_b) {
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = rows_span_of(&p->rows, task);
        for (int64_t row = span.first; row < span.last; row++) {
            const char *condition = x[0], *first = x[1], *second = x[2];
            char *to = (char *)x[3] + rows_offset(row, p->rows.sizes, p->result);
            condition += rows_offset(row, p->rows.sizes, p->condition) +
                         span.begin * p->condition[6];
            first += rows_offset(row, p->rows.sizes, p->first) + span.begin * p->first[6];
            second += rows_offset(row, p->rows.sizes, p->second) + span.begin * p->second[6];
            select_run(to + span.begin * size, (const uint8_t *)condition, first, second,
                       span.end - span.begin, size, one_condition, one_a, one_b);
        }
    }
}

#endif
