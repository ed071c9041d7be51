/* Rearranging by condition or by tables of addresses. All strides are in bytes. */
#ifndef CIRCLET_MOVES_H
#define CIRCLET_MOVES_H

#include "gather.h"

struct choose_params {
    int64_t rows;          /* inner runs in all */
    int64_t rows_per_task; /* of a task */
    int64_t inner;         /* elements of a run */
    int64_t chunk;         /* elements of a run that one task does */
    int64_t sizes[6];      /* outer sizes */
    int64_t condition[7];  /* strides */
    int64_t first[7];      /* strides */
    int64_t second[7];     /* strides */
    int64_t result[7];     /* strides */
};

#define CHOOSE_RUN(type)                                              \
    for (int64_t i = 0; i < n; i++) {                                 \
        type a = ((const type *)first)[one_a ? 0 : i];                \
        type b = ((const type *)second)[one_b ? 0 : i];               \
        ((type *)to)[i] = condition[one_condition ? 0 : i] ? a : b;   \
    }

/* The flags say which operands have one element for the whole run. */
CIRCLET_INLINE void choose_run(char *to, const uint8_t *condition, const char *first,
                               const char *second, int64_t n, int size, int one_condition,
                               int one_a, int one_b) {
    if (size == 8) CHOOSE_RUN(copy_u64)
    if (size == 4) CHOOSE_RUN(copy_u32)
    if (size == 2) CHOOSE_RUN(copy_u16)
    if (size == 1) CHOOSE_RUN(uint8_t)
}

/* Operands: condition, first, second, result. */
CIRCLET_INLINE void choose(const struct choose_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end, int size, int one_condition, int one_a,
                           int one_b) {
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        rows_span span = ROWS_SPAN(p, task);
        for (int64_t row = span.first; row < span.last; row++) {
            const char *condition = x[0], *first = x[1], *second = x[2];
            char *to = (char *)x[3] + rows_offset(row, p->sizes, p->result);
            condition += rows_offset(row, p->sizes, p->condition) + span.begin * p->condition[6];
            first += rows_offset(row, p->sizes, p->first) + span.begin * p->first[6];
            second += rows_offset(row, p->sizes, p->second) + span.begin * p->second[6];
            choose_run(to + span.begin * size, (const uint8_t *)condition, first, second,
                       span.end - span.begin, size, one_condition, one_a, one_b);
        }
    }
}

struct place_rows_params {
    int64_t rows;          /* positions of all axes but the last */
    int64_t rows_per_task; /* of a task */
    int64_t run_bytes;     /* contiguous bytes that one position moves */
    int64_t pattern;       /* the element to fill with, repeated to eight bytes */
    int64_t sizes[6];      /* of the axes */
    int64_t first[6];      /* number of each axis' first entry in the table */
};

/* Operands: source, result, table. An entry of an axis is a pair of offsets, into the source and
 * into the result; they add up over the axes. A negative one of the source means filling. */
CIRCLET_INLINE void place_rows(const struct place_rows_params *p, void *const *x, void *scratch,
                               int64_t begin, int64_t end) {
    (void)scratch;
    const int64_t *table = x[2], *inner = table + 2 * p->first[5];
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        int64_t rest = row, from = 0, to = 0, is_inside = 1;
        for (int axis = 4; axis >= 0; axis--) {
            const int64_t *entry = table + 2 * (p->first[axis] + rest % p->sizes[axis]);
            is_inside &= entry[0] >= 0;
            from += entry[0], to += entry[1];
            rest /= p->sizes[axis];
        }
        for (int64_t i = 0; i < p->sizes[5]; i++) {
            char *target = (char *)x[1] + to + inner[2 * i + 1];
            if (!is_inside || inner[2 * i] < 0) fill_run(target, p->pattern, p->run_bytes);
            else copy_run(target, (const char *)x[0] + from + inner[2 * i], p->run_bytes);
        }
    }
}

struct reverse_sequence_params {
    int64_t rows;           /* runs in all */
    int64_t rows_per_task;  /* of a task */
    int64_t run_bytes;      /* contiguous bytes that move together */
    int64_t sequence;       /* size of the axis that is turned round */
    int64_t sequence_rows;  /* rows from one of its places to the next */
    int64_t batch;          /* size of the axis of the lengths */
    int64_t batch_rows;     /* rows from one of its places to the next */
};

/* Operands: source, lengths, result. */
CIRCLET_INLINE void reverse_sequence(const struct reverse_sequence_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end, int index_size) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        int64_t place = row / p->sequence_rows % p->sequence;
        int64_t length = index_at(x[1], row / p->batch_rows % p->batch, index_size);
        length = index_inside(length, p->sequence + 1);
        int64_t source = place < length ? length - 1 - place : place;
        const char *from = (const char *)x[0] + row * p->run_bytes;
        copy_run((char *)x[2] + row * p->run_bytes,
                 from + (source - place) * p->sequence_rows * p->run_bytes, p->run_bytes);
    }
}

#endif
