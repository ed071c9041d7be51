/* A plan with memory, as binding.c makes it and run.c runs it. */
#ifndef CIRCLET_BINDING_H
#define CIRCLET_BINDING_H

#include "executable.h"
#include "pool.h"
#include "schedule.h"
#include "watch.h"

typedef struct port {
    char *buffer;
    uint32_t first_operand; /* head of the chain of operands that live in the buffer */
} port;

struct circlet_binding {
    uint64_t state; /* 0 while idle, else the token of the running process; bit 0 is cancellation */
    circlet_pool *pool;
    thread_team *team; /* of the run in progress, where it has several threads */
    circlet_executable *executable;
    bound_step *steps;
    void **operands;
    uint32_t *next_operand;
    port *ports; /* inputs, then outputs */
    char *arena;
    scratch_area scratch;
    uint64_t *step_ns;
    uint64_t *busy_ns;
    circlet_observer *observer;
    void *observer_context;
    size_t bytes;
    uint32_t step_count;
    uint32_t threads;
    uint32_t missing; /* ports that a step uses and that have no buffer */
    uint32_t team_place; /* as pool_begin_run has it */
    schedule schedule;
    watch watch;
};

/* Marks the binding as in use by this process; 0 where it is in use already. binding_leave is to
 * follow otherwise. */
uint32_t binding_enter(circlet_binding *binding);

void binding_leave(circlet_binding *binding);

#endif
