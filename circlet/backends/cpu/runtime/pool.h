/* The thread pool of the process: one run at a time uses it, others run on their own thread. */
#ifndef CIRCLET_POOL_H
#define CIRCLET_POOL_H

#include "circlet_runtime.h"
#include "watch.h"

/* A step of a binding, ready to be called. Chunks cover `quotient` tasks each; `remainder` of them,
 * half of these at the front and half at the back, one more, so that the first and the last thread
 * have as many of them. The least times seen in each mode of schedule.h decide whether the step is
 * serial. Between so many tasks of a chunk somebody looks whether the run is to end; 0 where a
 * chunk is short. */
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

typedef struct circlet_pool circlet_pool;

/* The pool of this process, made on first use; null without memory. A forked child gets its own. */
circlet_pool *pool_of_process(void);

/* A number that no other process on this fork tree has; even and not 0. */
uint64_t pool_process_token(circlet_pool *pool);

/* Takes the pool for a run of `threads` threads and makes missing workers. Returns the number of
 * threads to run with: 1 when another caller has the pool. */
uint32_t pool_acquire(circlet_pool *pool, uint32_t threads);
void pool_release(circlet_pool *pool);

/* Runs one step on the calling thread and on the workers 1 .. threads - 1. Each of them adds the
 * nanoseconds of its chunks to its place in `busy_ns`, unless that is null. */
void pool_run_step(circlet_pool *pool, const bound_step *step, scratch_area scratch,
                   uint32_t threads, watch *watch, uint64_t *busy_ns);

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
