/* Which steps of a binding run on all threads: learnt from the times of runs, now and then. */
#ifndef CIRCLET_SCHEDULE_H
#define CIRCLET_SCHEDULE_H

#include "pool.h"

#define CHUNKS_PER_THREAD 4u /* at most: what one does not do in time, others can */

/* How a run uses its threads. A trial tries one after the other and chooses the fastest. */
enum way { TOGETHER, ALONE, MIXED, WAYS };

typedef struct schedule {
    uint64_t ns[WAYS];       /* of the runs of each way in the last trial, but the slowest */
    uint64_t slowest_ns;     /* of the way in progress */
    uint32_t way;            /* of the next run */
    uint32_t chosen;         /* in the last trial */
    uint32_t has_lost;       /* workers gained nothing in the last trial */
    uint32_t lessons;        /* runs of this way that are left in a trial; 0 outside of trials */
    uint32_t runs;           /* until the next trial */
    uint32_t pause;          /* runs between two trials */
    uint32_t is_alone;       /* no step of this way wants a worker */
} schedule;

/* Whether the next run needs no workers and is none of a trial: schedule_next need not know. */
static inline uint32_t schedule_rests(schedule *s) {
    if (!s->is_alone || s->lessons || !s->runs)
        return 0;
    s->runs--;
    return 1;
}

/* Deals the tasks of a step into at most so many chunks. */
void schedule_deal(bound_step *step, uint32_t threads, int64_t most);

/* Whether the next run, on so many threads, is to be timed and told of; starts a trial when it is
 * time for one. */
uint32_t schedule_next(schedule *s, bound_step *steps, uint32_t count, uint32_t threads);

/* Takes in the time of a step of such a run. */
void schedule_learn_step(const schedule *s, bound_step *step, uint64_t ns);

/* Takes in the time of such a run, and goes on to the next way when this one was seen enough. */
void schedule_learn_run(schedule *s, bound_step *steps, uint32_t count, uint32_t threads,
                        uint64_t ns);

#endif
