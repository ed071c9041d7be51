/* The elements of windows joined, in the order of the windows' axes. */
#ifndef CIRCLET_REDUCE_WINDOW_H
#define CIRCLET_REDUCE_WINDOW_H

#include "join.h"
#include "rows.h"

struct reduce_window_params {
    int64_t rows;          /* of results along the innermost axis */
    int64_t rows_per_task; /* of a task */
    int64_t inner;         /* results of a row */
    int64_t inner_step;    /* elements of the source from one of them to the next */
    int64_t taps;          /* elements of a window */
    int64_t sizes[6];      /* outer sizes of the result */
    int64_t steps[7];      /* elements of the source along them */
    int64_t window[6];     /* sizes of a window */
    int64_t window_steps[7]; /* elements of the source along it */
};

/* Operands: source, the element to start with, result. */
CIRCLET_INLINE void reduce_window(const struct reduce_window_params *p, void *const *x,
                                  void *scratch, int64_t begin, int64_t end, int join, int type) {
    (void)scratch;
    int64_t size = join_size(type), last = s_min_i64(end * p->rows_per_task, p->rows);
    for (int64_t row = begin * p->rows_per_task; row < last; row++) {
        const char *from = (const char *)x[0] + rows_offset(row, p->sizes, p->steps) * size;
        char *to = (char *)x[2] + row * p->inner * size;
        for (int64_t i = 0; i < p->inner; i++) copy_element(to + i * size, x[1], (int)size);
        for (int64_t tap = 0; tap < p->taps; tap++)
            join_run(to, 1, from + rows_offset(tap, p->window, p->window_steps) * size,
                     p->inner_step, p->inner, join, type);
    }
}

#endif
