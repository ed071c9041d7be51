/* A team of threads: the caller of a run and its workers, which share out the steps of the run. */
#ifndef CIRCLET_TEAM_H
#define CIRCLET_TEAM_H

#include "circlet_runtime.h"
#include "watch.h"

#define CACHE_LINE 64

/* A step of a binding, ready to be called. Chunk number c covers the tasks from
 * c * quotient + c * remainder / chunks on. The least times seen in each mode of schedule.h decide
 * whether the step is serial. Between so many tasks of a chunk somebody looks whether the run is to
 * end; 0 where a chunk is short. */
typedef struct bound_step {
    circlet_kernel kernel;
    const void *params;
    void *const *operands;
    int64_t tasks;
    int64_t tasks_per_look;
    int64_t quotient;
    uint32_t remainder;
    uint32_t chunks;
    uint32_t parallel_ns;
    uint32_t serial_ns;
    uint32_t mixed_ns;
    uint32_t prefers_serial;
    uint32_t is_serial;
    uint32_t work; /* as in circlet_step */
} bound_step;

typedef struct scratch_area {
    char *base;
    uint64_t stride;
} scratch_area;

/* The unclaimed chunks of a share in one word, so that one compare-and-swap claims: 16 bits each
 * of threads, end and begin. The share's thread takes from the begin, others take from the end.
 * Threads that the step does not have find their number too large and claim nothing. */
typedef uint64_t ticket;

/* The step lies beside its ticket: one line brings both to the share's thread. */
typedef struct share {
    _Alignas(CACHE_LINE) ticket open;
    const bound_step *step;
} share;

typedef struct worker {
    _Alignas(CACHE_LINE) uint32_t parked; /* futex word: 1 while the worker sleeps */
    uint32_t index;                       /* in the team, where the caller is 0 */
    uint32_t thread;                      /* as the system numbers it */
    struct thread_team *team;
    _Alignas(CACHE_LINE) uint32_t at_work; /* it may hold a chunk */
    _Alignas(CACHE_LINE) uint32_t done;    /* chunks of its, in all steps; it alone writes here */
} worker;

/* All zero is a team without workers. */
typedef struct thread_team {
    _Alignas(CACHE_LINE) scratch_area scratch;
    watch *watch;
    uint64_t *busy_ns;
    uint32_t core;                               /* on which the caller was when last seen */
    _Alignas(CACHE_LINE) uint32_t caller_sleeps; /* until `reports` changes, which is .. */
    uint32_t reports;                            /* .. a futex word: of workers that saw it sleep */
    _Alignas(CACHE_LINE) uint32_t taken;
    uint32_t worker_count;
    uint64_t late_ns; /* for which the caller waited for stopped workers, in this run */
    share shares[CIRCLET_MAX_THREADS]; /* of the caller, then of the workers */
    worker workers[CIRCLET_MAX_THREADS];
} thread_team;

/* Runs one step on the calling thread and on the workers 1 .. threads - 1, or on as many threads as
 * it has chunks. Each of them adds the nanoseconds of its chunks to its place in `busy_ns`, unless
 * that is null. */
void team_run_step(thread_team *team, const bound_step *step, scratch_area scratch,
                   uint32_t threads, watch *watch, uint64_t *busy_ns);

/* What a worker does: claims chunks as long as it lives. */
void team_serve(worker *worker);

/* Runs some tasks of a step on this thread, up to where the run is to end. */
static inline void run_tasks(const bound_step *step, char *scratch, int64_t begin, int64_t end,
                             watch *watch) {
    int64_t most = step->tasks_per_look;
    for (; most && end - begin > most; begin += most) {
        if (watch_look(watch))
            return;
        step->kernel(step->params, step->operands, scratch, begin, begin + most);
    }
    step->kernel(step->params, step->operands, scratch, begin, end);
}

#endif
