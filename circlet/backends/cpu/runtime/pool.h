/* The threads of the process: teams, of which a run has one to itself. */
#ifndef CIRCLET_POOL_H
#define CIRCLET_POOL_H

#include "team.h"

typedef struct circlet_pool circlet_pool;

/* The pool of this process, made on first use; null without memory. A forked child gets its own. */
circlet_pool *pool_of_process(void);

/* A number that no other process on this fork tree has; even and not 0. */
uint64_t pool_process_token(circlet_pool *pool);

/* Begins a run that wants two `threads` or more, and makes missing workers. Runs that are in
 * progress side by side get equal parts of the cores. Writes how many threads the run has, and
 * returns its team; null where the calling thread is alone. `place` holds which team the binding had
 * last. */
thread_team *pool_begin_run(circlet_pool *pool, uint32_t *threads, uint32_t *place);
void pool_end_run(circlet_pool *pool, thread_team *team);

#endif
