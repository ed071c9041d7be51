/* A chain of kernels band by band: each makes a few rows, which the next one reads while they are
 * still in the cache. Images between the kernels are never whole; their rows are in scratch.
 *
 * A table, which is a constant of the plan, says what happens: bands, steps, calls, and the
 * parameters of the called kernels. All offsets are in bytes; those into the table count from its
 * start.
 */
#ifndef CIRCLET_BAND_H
#define CIRCLET_BAND_H

#include <circlet_abi.h>

#include "copy.h"

#define BAND_OPERANDS 8

struct band_params {
    int64_t first_step;    /* where the steps are in the table */
    int64_t first_call;    /* where the calls are */
    int64_t buffers_bytes; /* bytes of scratch for rows; kernels have what is behind them */
    int32_t setup_steps;   /* steps that come before any band */
};

/* A band's steps: afresh unless the band before was just done, else onward; then its body. */
struct band_range {
    int32_t afresh;
    int32_t onward;
    int32_t body;
    int32_t end;
};

enum band_action { BAND_CALL = 0, BAND_MOVE = 1, BAND_FILL = 2 };

struct band_step {
    int64_t from;    /* call: first row that is read; move: where the bytes are */
    int64_t to;      /* first row that is written, or where the bytes go */
    int64_t added;   /* call: first row of the addend */
    int64_t bytes;   /* move and fill: of a run */
    int64_t apart;   /* fill: from one run to the next */
    int64_t pattern; /* fill: the element, repeated to eight bytes */
    int32_t action;
    int32_t count;   /* call: its number; fill: runs */
};

/* What an operand's address counts from besides its own base. */
enum band_shift { BAND_FIXED = 0, BAND_FROM = 1, BAND_TO = 2, BAND_ADDED = 3 };

#define BAND_SCRATCH (-1) /* as base: scratch memory */
#define BAND_NONE (-2)    /* as base: an omitted operand */

struct band_call {
    int64_t params; /* where the kernel's parameters are in the table */
    int64_t tasks;
    int64_t offsets[BAND_OPERANDS];
    int32_t bases[BAND_OPERANDS];  /* operands of the band kernel, or one of the above */
    int32_t shifts[BAND_OPERANDS];
    int32_t operands;
    int32_t kernel; /* operand of the band kernel */
};

CIRCLET_INLINE void band_call(const struct band_params *p, void *const *x, char *scratch,
                              const struct band_step *step) {
    const char *table = x[0];
    const struct band_call *call = (const struct band_call *)(table + p->first_call) + step->count;
    const int64_t shifts[] = {0, step->from, step->to, step->added};
    void *operands[BAND_OPERANDS];
    CIRCLET_NO_UNROLL for (int i = 0; i < call->operands; i++) {
        int32_t base = call->bases[i];
        char *start = base == BAND_SCRATCH ? scratch : base == BAND_NONE ? 0 : x[base];
        operands[i] = start ? start + call->offsets[i] + shifts[call->shifts[i]] : 0;
    }
    circlet_kernel kernel = (circlet_kernel)x[call->kernel];
    kernel(table + call->params, operands, scratch + p->buffers_bytes, 0, call->tasks);
}

/* Steps from `first` up to `last`. */
CIRCLET_INLINE void band_steps(const struct band_params *p, void *const *x, char *scratch,
                               int32_t first, int32_t last) {
    const char *table = x[0];
    const struct band_step *steps = (const struct band_step *)(table + p->first_step);
    CIRCLET_NO_UNROLL for (int32_t i = first; i < last; i++) {
        const struct band_step *step = &steps[i];
        if (step->action == BAND_CALL)
            band_call(p, x, scratch, step);
        else if (step->action == BAND_MOVE)
            copy_run(scratch + step->to, scratch + step->from, step->bytes);
        else
            CIRCLET_NO_UNROLL for (int32_t run = 0; run < step->count; run++)
                fill_run(scratch + step->to + run * step->apart, step->pattern, step->bytes);
    }
}

/* Operands: the table, then in any order kernels, constants, the input, the output and addends. A
 * task is a band. */
CIRCLET_INLINE void band(const struct band_params *p, void *const *x, void *scratch, int64_t begin,
                         int64_t end) {
    const struct band_range *bands = x[0];
    band_steps(p, x, scratch, 0, p->setup_steps);
    CIRCLET_NO_UNROLL for (int64_t task = begin; task < end; task++) {
        const struct band_range *b = &bands[task];
        if (task == begin)
            band_steps(p, x, scratch, b->afresh, b->onward);
        else
            band_steps(p, x, scratch, b->onward, b->body);
        band_steps(p, x, scratch, b->body, b->end);
    }
}

#endif
