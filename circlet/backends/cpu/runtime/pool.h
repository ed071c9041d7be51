/* The thread pool of the process: one run at a time uses it, others run on their own thread. */
#ifndef CIRCLET_POOL_H
#define CIRCLET_POOL_H

#include "circlet_runtime.h"

/* A step of a binding, ready to be called. Chunks cover quotient tasks; `remainder` of them, half
 * of these first and half last, one more. The least times seen on all threads, on one, and among
 * neighbours that run either way decide whether it runs alone. */
typedef struct bound_step {
    circlet_kernel kernel;
    const void *params;
    void *const *operands;
    int64_t tasks;
    int64_t quotient;
    uint32_t remainder;
    uint32_t chunks;
    uint32_t together_ns;
    uint32_t alone_ns;
    uint32_t mixed_ns;
    uint32_t prefers_alone;
    uint32_t alone;
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

/* Runs one step on the calling thread and on the workers 1 .. threads - 1. */
void pool_run_step(circlet_pool *pool, const bound_step *step, scratch_area scratch,
                   uint32_t threads);

#endif
