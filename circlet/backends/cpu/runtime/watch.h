/* Whether a run in progress is to end: asked between steps, between the tasks of long steps, and by
 * kernels of long tasks. */
#ifndef CIRCLET_WATCH_H
#define CIRCLET_WATCH_H

#include "circlet_runtime.h"

#define CANCELLED_BIT 1u /* of the state of a binding */
#define WORK_PER_LOOK 131072u /* in the units of steps: about a tenth of a second for slow kernels */
#define STEP_WEIGHT 64u       /* what a step adds to that besides its work */

/* Of one run; any of its threads may look. */
typedef struct watch {
    circlet_stop stop;     /* what kernels are given: the first, so that it is found again */
    const uint64_t *state; /* of the binding */
    uint64_t deadline_ns;  /* 0 for none */
    uint64_t next_ask_ns;  /* when the interrupt is asked next; 0 before the first look */
    uint32_t status;       /* why the run is to end; CIRCLET_OK while it goes on */
    uint32_t step;         /* that runs */
    uint32_t refused_step; /* that refused an operand */
} watch;

/* Resets a watch for a run; costs next to nothing. */
static inline void watch_start(watch *watch, const uint64_t *state, uint64_t deadline_ns) {
    watch->state = state;
    watch->deadline_ns = deadline_ns;
    watch->next_ask_ns = 0;
    watch->status = CIRCLET_OK;
}

/* Has kernels find the watch. */
void watch_init(watch *watch);

/* Why the run is to end, CIRCLET_OK where it is not: cancelled, late, or interrupted. */
uint32_t watch_look(watch *watch);

#endif
