/* Which steps of a binding run on all threads: learnt from the times of runs, now and then. */
#ifndef CIRCLET_SCHEDULE_H
#define CIRCLET_SCHEDULE_H

#include "team.h"

#define CHUNKS_PER_THREAD 4u /* as a rule: others steal what one thread does not do in time */
#define WORK_PER_CHUNK 16u /* in the units of steps: a microsecond or two where kernels are slow */

/* How a run uses its threads: every step on all of them, all but long steps on the calling
 * thread, or each step as its own times say. A trial tries one mode after the other and takes
 * the fastest. */
enum run_mode { PARALLEL, SERIAL, MIXED, MODES };

typedef struct schedule {
    uint64_t ns[MODES];      /* of the runs of each mode in the last trial, but the slowest */
    uint64_t seen_ns[MODES]; /* the same of all trials, each counted half as much as the next */
    uint64_t slowest_ns;     /* of the mode in progress */
    uint64_t late_ns;        /* for which the caller waited for stopped workers, .. */
    uint32_t late_runs;      /* .. in so many runs, the last of which count most */
    uint32_t seen_runs;      /* of a mode in `seen_ns` */
    uint64_t gain_ns;        /* of a run on all threads, by the last trial */
    uint32_t mode;           /* of the next run */
    uint32_t chosen;         /* in the last trial */
    uint32_t samples_left;   /* runs of this mode that are left in a trial; 0 outside of trials */
    uint32_t runs;           /* until the next trial */
    uint32_t pause;          /* runs between two trials; 0 before the first one */
    uint32_t is_serial;      /* no step wants a worker in this mode */
} schedule;

/* Whether the next run needs no workers and is none of a trial: schedule_next need not know. */
static inline uint32_t schedule_rests(schedule *s) {
    if (!s->is_serial || s->samples_left || !s->runs)
        return 0;
    s->runs--;
    return 1;
}

/* Splits the tasks of a step into chunks: as a rule, but into no more than are worth their claims,
 * two at least. Short steps are then for some of the threads. */
void schedule_split(bound_step *step, uint32_t threads, uint64_t worthwhile);

/* Whether the next run, on so many threads, is to be timed and told of; starts a trial when it is
 * time for one. */
uint32_t schedule_next(schedule *s, bound_step *steps, uint32_t count, uint32_t threads);

/* Records the time of a step of such a run. */
void schedule_record_step(const schedule *s, bound_step *step, uint64_t ns);

/* Records the time of such a run, and goes on to the next mode when this one was seen enough. */
void schedule_record_run(schedule *s, bound_step *steps, uint32_t count, uint32_t threads,
                         uint64_t ns);

/* Records for how long any run on several threads waited for stopped workers; where that takes more
 * than threads gain, the next run begins a trial. */
void schedule_record_wait(schedule *s, uint64_t late_ns);

#endif
