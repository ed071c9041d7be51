/* Layers run stripe by stripe (fused layers, Alwani et al., 2016; depth first): each kernel makes a
 * few rows, which the next one reads while they are still in the cache. Images between the kernels
 * are never whole; their rows are in scratch. Rows that the windows of two stripes share (the halo)
 * are kept where a thread does the stripes one after the other, and made again where it starts
 * afresh.
 *
 * A table, which is a constant of the plan, says what happens: stripes, steps, calls, and the
 * parameters of the called kernels. All offsets are in bytes; those into the table count from its
 * start.
 */
#ifndef CIRCLET_STRIPE_H
#define CIRCLET_STRIPE_H

#include <circlet_abi.h>

#include "copy.h"

#define STRIPE_OPERANDS 8

struct stripe_params {
    int64_t first_step;    /* where the steps are in the table */
    int64_t first_call;    /* where the calls are */
    int64_t buffers_bytes; /* bytes of scratch for rows; kernels have what is behind them */
    int32_t setup_steps;   /* steps that come before any stripe */
};

/* A stripe's steps: afresh unless the stripe before was just done, else onward; then its body. */
struct stripe_range {
    int32_t afresh;
    int32_t onward;
    int32_t body;
    int32_t end;
};

enum stripe_action { STRIPE_CALL = 0, STRIPE_MOVE = 1, STRIPE_FILL = 2 };

struct stripe_step {
    int64_t from;    /* call: first row that is read; move: where the bytes are */
    int64_t to;      /* first row that is written, or where the bytes go */
    int64_t added;   /* call: first row of the addend */
    int64_t bytes;   /* move and fill: of a run */
    int64_t apart;   /* fill: from one run to the next */
    int64_t pattern; /* fill: the element, repeated to eight bytes */
    int32_t action;
    int32_t count;   /* call: its number; fill: runs */
};

/* What an operand's address counts from besides its own base: one call serves every stripe of as
 * many rows, wherever these lie. */
enum stripe_shift { STRIPE_FIXED = 0, STRIPE_FROM = 1, STRIPE_TO = 2, STRIPE_ADDED = 3 };

#define STRIPE_SCRATCH (-1) /* as base: scratch memory */
#define STRIPE_NONE (-2)    /* as base: an omitted operand */

struct stripe_call {
    int64_t params; /* where the kernel's parameters are in the table */
    int64_t tasks;
    int64_t offsets[STRIPE_OPERANDS];
    int32_t bases[STRIPE_OPERANDS];  /* operands of the stripe kernel, or one of the above */
    int32_t shifts[STRIPE_OPERANDS];
    int32_t operands;
    int32_t kernel; /* operand of the stripe kernel */
};

CIRCLET_INLINE void stripe_call(const struct stripe_params *p, void *const *x, char *scratch,
                                const struct stripe_step *step) {
    const char *table = x[0];
    const struct stripe_call *calls = (const struct stripe_call *)(table + p->first_call);
    const struct stripe_call *call = calls + step->count;
    const int64_t shifts[] = {0, step->from, step->to, step->added};
    void *operands[STRIPE_OPERANDS];
    CIRCLET_NO_UNROLL for (int i = 0; i < call->operands; i++) {
        int32_t base = call->bases[i];
        char *start = base == STRIPE_SCRATCH ? scratch : base == STRIPE_NONE ? 0 : x[base];
        operands[i] = start ? start + call->offsets[i] + shifts[call->shifts[i]] : 0;
    }
    circlet_kernel kernel = (circlet_kernel)x[call->kernel];
    kernel(table + call->params, operands, scratch + p->buffers_bytes, 0, call->tasks);
}

/* Steps from `first` up to `last`. */
CIRCLET_INLINE void stripe_steps(const struct stripe_params *p, void *const *x, char *scratch,
                                 int32_t first, int32_t last) {
    const char *table = x[0];
    const struct stripe_step *steps = (const struct stripe_step *)(table + p->first_step);
    CIRCLET_NO_UNROLL for (int32_t i = first; i < last; i++) {
        const struct stripe_step *step = &steps[i];
        if (step->action == STRIPE_CALL)
            stripe_call(p, x, scratch, step);
        else if (step->action == STRIPE_MOVE)
            copy_run(scratch + step->to, scratch + step->from, step->bytes);
        else
            CIRCLET_NO_UNROLL for (int32_t run = 0; run < step->count; run++)
                fill_run(scratch + step->to + run * step->apart, step->pattern, step->bytes);
    }
}

/* Operands: the table, then in any order kernels, constants, the input, the output and addends. A
 * task is a stripe. */
CIRCLET_INLINE void stripe(const struct stripe_params *p, void *const *x, void *scratch,
                           int64_t begin, int64_t end) {
    const struct stripe_range *stripes = x[0];
    stripe_steps(p, x, scratch, 0, p->setup_steps);
    CIRCLET_NO_UNROLL for (int64_t task = begin; task < end; task++) {
        const struct stripe_range *b = &stripes[task];
        if (task == begin)
            stripe_steps(p, x, scratch, b->afresh, b->onward);
        else
            stripe_steps(p, x, scratch, b->onward, b->body);
        stripe_steps(p, x, scratch, b->body, b->end);
    }
}

#endif
