/* Tensors that have room for every run, of which a run fills as much as it needs. How many places
 * of an axis are filled, from its start on, is a count: one int64_t, which some of these kernels
 * find and others are told. A count never exceeds the size of its axis. */
#ifndef CIRCLET_BOUNDED_H
#define CIRCLET_BOUNDED_H

#include "copy.h"

#define BOUNDED_NUMBERS 32
#define BOUNDED_AXES 6

/* A count, or what it may be at most where nobody counts. */
CIRCLET_INLINE int64_t bounded_count(const int64_t *count, int64_t most) {
    if (!count) return most;
    return *count < 0 ? 0 : s_min_i64(*count, most);
}

enum bounded_join { BOUNDED_SUM, BOUNDED_PRODUCT, BOUNDED_LEAST, BOUNDED_GREATEST };

struct bounded_size_params {
    int64_t terms;
    int64_t has_constant; /* whether `constant` is one more term */
    int64_t constant;
};

CIRCLET_INLINE int64_t bounded_joined(int64_t a, int64_t b, int join) {
    if (join == BOUNDED_SUM) return a + b;
    if (join == BOUNDED_PRODUCT) return a * b;
    return (join == BOUNDED_LEAST) == (b < a) ? b : a;
}

/* Operands: counts, result: one count that follows from others. */
CIRCLET_INLINE void bounded_size(const struct bounded_size_params *p, void *const *x, void *scratch,
                                 int64_t begin, int64_t end, int join) {
    (void)scratch, (void)begin, (void)end;
    int64_t made = *(const int64_t *)x[0];
    for (int64_t i = 1; i < p->terms; i++)
        made = bounded_joined(made, *(const int64_t *)x[i], join);
    if (p->has_constant) made = bounded_joined(made, p->constant, join);
    *(int64_t *)x[p->terms] = made;
}

struct bounded_size_list_params {
    int64_t counts;                    /* operands before the result */
    int64_t elements;                  /* of the result */
    int64_t inputs[BOUNDED_NUMBERS];    /* the count that each element is, -1 for a constant */
    int64_t constants[BOUNDED_NUMBERS]; /* the others */
};

/* Operands: counts, result: a list of sizes. */
CIRCLET_INLINE void bounded_size_list(const struct bounded_size_list_params *p, void *const *x,
                                      void *scratch, int64_t begin, int64_t end, int size) {
    (void)scratch, (void)begin, (void)end;
    for (int64_t i = 0; i < p->elements; i++) {
        int64_t at = p->inputs[i], value = at < 0 ? p->constants[i] : *(const int64_t *)x[at];
        if (size == 8) ((int64_t *)x[p->counts])[i] = value;
        else ((int32_t *)x[p->counts])[i] = (int32_t)value;
    }
}

struct bounded_where_params {
    int64_t rows;                /* runs of the innermost axis, as many as there is room for */
    int64_t inner;               /* elements of a run */
    int64_t per_count;           /* runs, or elements of the only one, to a place that is counted */
    int64_t axes;
    int64_t room;                /* for places, from column to column of the result */
    int64_t sizes[BOUNDED_AXES]; /* of the axes but the innermost */
};

/* Whether any of eight elements of a byte each is not 0. */
CIRCLET_INLINE int bounded_any_of_eight(const char *from) {
    typedef uint64_t word __attribute__((aligned(1), may_alias));
    return *(const word *)from != 0;
}

CIRCLET_INLINE int bounded_is_set(const char *from, int64_t i, int size, int is_float) {
    if (size == 1) return ((const uint8_t *)from)[i] != 0;
    if (size == 8) return ((const uint64_t *)from)[i] != 0;
    uint32_t bits = ((const uint32_t *)from)[i];
    return (is_float ? bits << 1 : bits) != 0; /* -0 is 0 */
}

/* The places of elements that are not 0 in whole vectors of a run, `done` elements in all. As many
 * numbers as a vector has lanes may be written behind them. */
CIRCLET_INLINE int64_t bounded_where_vectors(const char *from, int64_t count, int64_t *to, int size,
                                             int is_float, int64_t *done) {
    int64_t found = 0, i = 0;
    for (; i + CIRCLET_LANES <= count; i += CIRCLET_LANES) {
        const char *at = from + i * size;
        vi x = size == 1 ? v_widen_u8((const uint8_t *)at) : v_load_i32((const int32_t *)at);
        if (is_float) x = (vi)((vu)x << 1); /* -0 is 0 */
        int32_t places[CIRCLET_LANES];
        int64_t more = v_compress_i32(places, v_iota(), (vi)(x != v_zero_i32()));
        if (!more) continue;
        for (int k = 0; k < CIRCLET_LANES; k++) to[found + k] = i + places[k];
        found += more;
    }
    *done = i;
    return found;
}

/* The places of the elements of a run that are not 0; each is written before it is known whether
 * it counts, as a branch on it could not be foreseen. Rows of the result lie behind each other. */
CIRCLET_INLINE int64_t bounded_where_run(const char *from, int64_t count, int64_t *to,
                                         const int64_t *outer, int64_t axes, int size,
                                         int is_float) {
    int64_t found = 0, i = 0;
    if (CIRCLET_VBYTES == 64 && axes == 1 && size < 8)
        found = bounded_where_vectors(from, count, to, size, is_float, &i);
    for (; i < count; i++) {
        if (size == 1 && i + 8 <= count && !bounded_any_of_eight(from + i)) {
            i += 7;
            continue;
        }
        int64_t *row = to + found * axes;
        for (int64_t k = 0; k < axes - 1; k++) row[k] = outer[k];
        row[axes - 1] = i;
        found += bounded_is_set(from, i, size, is_float);
    }
    return found;
}

/* The same, without a loop for each place of one axis or two. */
CIRCLET_INLINE int64_t bounded_where_places(const char *from, int64_t count, int64_t *to,
                                            const int64_t *outer, int64_t axes, int size,
                                            int is_float) {
    if (axes == 1) return bounded_where_run(from, count, to, outer, 1, size, is_float);
    if (axes == 2) return bounded_where_run(from, count, to, outer, 2, size, is_float);
    return bounded_where_run(from, count, to, outer, axes, size, is_float);
}

/* The same, each place a column: a row of the result, of `room` numbers, for each axis. */
CIRCLET_INLINE int64_t bounded_where_transposed(const char *from, int64_t count, int64_t *to,
                                            int64_t room, const int64_t *outer, int64_t axes,
                                            int size, int is_float) {
    int64_t *last = to + (axes - 1) * room;
    int64_t found = bounded_where_run(from, count, last, outer, 1, size, is_float);
    for (int64_t k = 0; k < axes - 1; k++)
        for (int64_t i = 0; i < found; i++) to[k * room + i] = outer[k];
    return found;
}

/* Operands: elements, count of their leading axis or null, places, number of places. */
CIRCLET_INLINE void bounded_where(const struct bounded_where_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, int size,
                                  int is_float, int is_transposed) {
    (void)scratch, (void)begin, (void)end;
    int64_t rows = p->rows, inner = p->inner, found = 0, outer[BOUNDED_AXES] = {0};
    if (rows > 1) rows = bounded_count(x[1], rows / p->per_count) * p->per_count;
    else inner = bounded_count(x[1], inner);
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row;
        for (int64_t k = p->axes - 2; k >= 0; k--) {
            outer[k] = rest % p->sizes[k];
            rest /= p->sizes[k];
        }
        const char *from = (const char *)x[0] + row * p->inner * size;
        int64_t *to = (int64_t *)x[2] + (is_transposed ? found : found * p->axes);
        if (is_transposed)
            found += bounded_where_transposed(from, inner, to, p->room, outer, p->axes, size, is_float);
        else
            found += bounded_where_places(from, inner, to, outer, p->axes, size, is_float);
    }
    *(int64_t *)x[3] = found;
}

struct bounded_concatenation_params {
    int64_t parts;
    int64_t rows;      /* that the result has room for */
    int64_t row_bytes; /* of a place of the axis */
};

/* Operands: parts, the count of each, result. */
CIRCLET_INLINE void bounded_concatenation(const struct bounded_concatenation_params *p,
                                          void *const *x, void *scratch, int64_t begin,
                                          int64_t end) {
    (void)scratch, (void)begin, (void)end;
    int64_t filled = 0;
    for (int64_t i = 0; i < p->parts; i++) {
        int64_t count = bounded_count(x[p->parts + i], p->rows - filled);
        copy_run((char *)x[2 * p->parts] + filled * p->row_bytes, x[i], count * p->row_bytes);
        filled += count;
    }
}

struct bounded_turns_params {
    int64_t most; /* turns that there is room for */
};

/* Operands: whether a loop goes on, turns so far, the same result, circlet_stop. */
CIRCLET_INLINE void bounded_turns(const struct bounded_turns_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end) {
    (void)scratch, (void)begin, (void)end;
    circlet_stop *stop = x[3];
    char goes_on = *(const char *)x[0];
    if (goes_on && *(const int64_t *)x[1] >= p->most) {
        if (stop) stop->outgrow(stop);
        goes_on = 0;
    }
    *(char *)x[2] = goes_on;
}

struct bounded_tail_params {
    int64_t rows;      /* positions in front of the axis */
    int64_t size;      /* places of the axis */
    int64_t run_bytes; /* of a place */
    int64_t pattern;   /* of what stands behind those that are filled, eight bytes of it */
};

/* Operands: source, count, result. A task is a row. */
CIRCLET_INLINE void bounded_tail(const struct bounded_tail_params *p, void *const *x, void *scratch,
                                 int64_t begin, int64_t end) {
    (void)scratch;
    int64_t all = p->size * p->run_bytes, kept = bounded_count(x[1], p->size) * p->run_bytes;
    for (int64_t row = begin; row < end; row++) {
        char *to = (char *)x[2] + row * all;
        copy_run(to, (const char *)x[0] + row * all, kept);
        fill_run(to + kept, p->pattern, all - kept);
    }
}

#endif
