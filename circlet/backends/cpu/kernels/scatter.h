/* Updates joined into a copy of the data, where indices point. Indices below zero count from the
 * end; those that lie outside change nothing. One task each, since places may repeat, and sums
 * depend on their order. */
#ifndef CIRCLET_SCATTER_H
#define CIRCLET_SCATTER_H

#include "gather.h"
#include "join.h"

struct scatter_vectors_params {
    int64_t rows;       /* index vectors */
    int64_t depth;      /* indices of a vector */
    int64_t run;        /* elements that one vector names */
    int64_t sizes[6];   /* of the axes that a vector indexes */
    int64_t strides[6]; /* of them, in elements */
};

/* Operands: indices, updates, result, which holds the data already. */
CIRCLET_INLINE void scatter_vectors(const struct scatter_vectors_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int index_size,
                                    int join, int type) {
    (void)scratch, (void)begin, (void)end;
    const int64_t size = join_size(type);
    const char *from = x[1];
    for (int64_t row = 0; row < p->rows; row++, from += p->run * size) {
        int64_t at = 0, inside = 1;
        for (int64_t i = 0; i < p->depth; i++) {
            int64_t index = index_at(x[0], row * p->depth + i, index_size);
            index += index < 0 ? p->sizes[i] : 0;
            int64_t valid = index >= 0 && index < p->sizes[i];
            inside &= valid;
            at += valid ? index * p->strides[i] : 0;
        }
        if (inside) join_run((char *)x[2] + at * size, 1, from, 1, p->run, join, type);
    }
}

struct scatter_elements_params {
    int64_t rows;     /* of the updates along their last axis */
    int64_t inner;    /* elements of a row */
    int64_t step;     /* elements of the data from one of them to the next; 0 along the axis */
    int64_t size;     /* of the axis that indices name places of */
    int64_t stride;   /* of it, in elements */
    int64_t sizes[6]; /* outer sizes of the updates */
    int64_t steps[7]; /* elements of the data along them; 0 along the axis */
};

/* Whether all indices of a row are the same, as those are that were repeated along it. */
CIRCLET_INLINE int scatter_is_repeated(const void *indices, int64_t from, int64_t n,
                                       int index_size) {
    const int64_t first = index_at(indices, from, index_size);
    int64_t other = 0;
    for (int64_t i = 1; i < n; i++) other |= index_at(indices, from + i, index_size) ^ first;
    return other == 0;
}

/* Where along the axis an index points, in elements; below zero where that is outside. */
CIRCLET_INLINE int64_t scatter_place(const struct scatter_elements_params *p, int64_t index) {
    index += index < 0 ? p->size : 0;
    return index >= p->size ? -1 : index * p->stride;
}

/* Operands: indices, updates, result, which holds the data already. */
CIRCLET_INLINE void scatter_elements(const struct scatter_elements_params *p, void *const *x,
                                     void *scratch, int64_t begin, int64_t end, int index_size,
                                     int join, int type) {
    (void)scratch, (void)begin, (void)end;
    const int64_t size = join_size(type), inner = p->inner, step = p->step;
    for (int64_t row = 0; row < p->rows; row++) {
        const int64_t first = row * inner;
        char *to = (char *)x[2] + rows_offset(row, p->sizes, p->steps) * size;
        const char *from = (const char *)x[1] + first * size;
        const int is_run = step && scatter_is_repeated(x[0], first, inner, index_size);
        if (is_run) {
            int64_t at = scatter_place(p, index_at(x[0], first, index_size));
            if (at >= 0) join_run(to + at * size, 1, from, 1, inner, join, type);
            continue;
        }
        for (int64_t i = 0; i < inner; i++) {
            int64_t at = scatter_place(p, index_at(x[0], first + i, index_size));
            if (at < 0) continue;
            join_run(to + (i * step + at) * size, 1, from + i * size, 1, 1, join, type);
        }
    }
}

#endif
