/* Windows that lie where index vectors point: gathered from there, or joined into what is there.
 *
 * The result of a gather, and the updates of a scatter, are walked in order of their axes, of which
 * some are axes of windows and the others name an index vector. */
#ifndef CIRCLET_INDEXED_H
#define CIRCLET_INDEXED_H

#include "gather.h"
#include "join.h"

#define INDEXED_FARTHEST ((int64_t)1 << 48) /* more than any size, so that sums do not overflow */

struct gather_windows_params {
    int64_t rows;           /* of the result along its innermost axis of windows */
    int64_t rows_per_task;  /* of a task */
    int64_t inner;          /* elements of a row */
    int64_t inner_step;     /* elements of the operand from one of them to the next */
    int64_t depth;          /* indices of a vector */
    int64_t vector_step;    /* elements of the indices from one of them to the next */
    int64_t sizes[6];       /* outer sizes of the result */
    int64_t index_steps[7]; /* elements of the indices along them */
    int64_t steps[7];       /* elements of the operand along them */
    int64_t last_start[6];  /* the largest start that each index may name */
    int64_t starts[6];      /* elements of the operand for each step of an index */
};

/* Operands: operand, indices, result. Starts are moved so that windows lie inside. */
CIRCLET_INLINE void gather_windows(const struct gather_windows_params *p, void *const *x,
                                   void *scratch, int64_t begin, int64_t end, int index_size,
                                   int size) {
    (void)scratch;
    int64_t last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        int64_t vector = rows_offset(row, p->sizes, p->index_steps);
        int64_t at = rows_offset(row, p->sizes, p->steps);
        for (int64_t i = 0; i < p->depth; i++) {
            int64_t index = index_at(x[1], vector + i * p->vector_step, index_size);
            at += p->starts[i] * index_inside(index, p->last_start[i] + 1);
        }
        const char *from = (const char *)x[0] + at * size;
        char *to = (char *)x[2] + row * p->inner * size;
        if (p->inner_step == 1) copy_run(to, from, p->inner * size);
        else
            for (int64_t i = 0; i < p->inner; i++)
                copy_element(to + i * size, from + i * p->inner_step * size, size);
    }
}

struct scatter_windows_params {
    int64_t rows;           /* of the updates along their innermost axis of windows */
    int64_t inner;          /* elements of a row */
    int64_t inner_axis;     /* the axis of the operand that it is */
    int64_t depth;          /* indices of a vector */
    int64_t vector_step;    /* elements of the indices from one of them to the next */
    int64_t sizes[6];       /* outer sizes of the updates */
    int64_t index_steps[6]; /* elements of the indices along them */
    int64_t axes[6];        /* the axis of the operand that each of them is, or 7: none */
    int64_t named[6];       /* the axis of the operand that each index names */
    int64_t shape[8];       /* of the operand, 1 behind its axes */
    int64_t strides[8];     /* of the operand, in elements, 0 behind its axes */
};

/* Where the window of a row starts along each axis of the operand. */
CIRCLET_INLINE void scatter_place(const struct scatter_windows_params *p, const void *indices,
                                  int64_t row, int index_size, int64_t *place) {
    int64_t vector = 0;
    for (int axis = 0; axis < 8; axis++) place[axis] = 0;
    for (int outer = 5; outer >= 0; outer--) {
        int64_t at = row % p->sizes[outer];
        row /= p->sizes[outer];
        vector += at * p->index_steps[outer];
        place[p->axes[outer]] += at;
    }
    place[7] = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        int64_t index = index_at(indices, vector + i * p->vector_step, index_size);
        index = index < -INDEXED_FARTHEST ? -INDEXED_FARTHEST : s_min_i64(index, INDEXED_FARTHEST);
        place[p->named[i]] += index;
    }
}

/* Operands: indices, updates, result, which holds the operand already. One task, since places may
 * repeat, and sums depend on their order; elements that lie outside change nothing. */
CIRCLET_INLINE void scatter_windows(const struct scatter_windows_params *p, void *const *x,
                                    void *scratch, int64_t begin, int64_t end, int index_size,
                                    int join, int type) {
    (void)scratch, (void)begin, (void)end;
    int64_t size = join_size(type), place[8];
    for (int64_t row = 0; row < p->rows; row++) {
        scatter_place(p, x[0], row, index_size, place);
        int64_t at = 0, inside = 1;
        for (int axis = 0; axis < 8; axis++) {
            if (axis == p->inner_axis) continue;
            int64_t valid = place[axis] >= 0 && place[axis] < p->shape[axis];
            inside &= valid;
            at += valid ? place[axis] * p->strides[axis] : 0;
        }
        int64_t start = place[p->inner_axis], step = p->strides[p->inner_axis];
        int64_t first = start < 0 ? s_min_i64(-start, p->inner) : 0;
        int64_t last = s_min_i64(p->inner, p->shape[p->inner_axis] - start);
        if (!inside || last <= first) continue;
        join_run((char *)x[2] + (at + (start + first) * step) * size, step,
                 (const char *)x[1] + (row * p->inner + first) * size, 1, last - first, join, type);
    }
}

#endif
