/* The C interface of the runtime library: what runs a compiled plan without Python.
 *
 *     circlet_executable *executable;
 *     circlet_binding *binding;
 *     circlet_executable_create(plan, plan_bytes, constants, constants_bytes, units, 1, &executable);
 *     circlet_binding_create(executable, inputs, outputs, 2, &binding);
 *     circlet_run(binding, 0);
 *     circlet_binding_destroy(binding);
 *     circlet_executable_release(executable);
 *
 * Functions that can fail return a circlet_status. Any number of threads may run different
 * bindings of one executable at the same time; one binding does one run at a time.
 */
#ifndef CIRCLET_RUNTIME_H
#define CIRCLET_RUNTIME_H

#include "circlet_abi.h"

#define CIRCLET_EXPORT __attribute__((visibility("default")))
#define CIRCLET_MAX_THREADS 64u

typedef struct circlet_executable circlet_executable;
typedef struct circlet_binding circlet_binding;

/* Checks a plan in full and makes it ready to be bound; the caller holds one reference. The plan
 * (64-byte aligned), the constants and the units are used in place: they must outlive the
 * executable. */
CIRCLET_EXPORT uint32_t circlet_executable_create(const void *plan, uint64_t plan_bytes,
                                                  const void *constants, uint64_t constants_bytes,
                                                  const circlet_unit *const *units,
                                                  uint32_t unit_count, circlet_executable **out);

CIRCLET_EXPORT void circlet_executable_retain(circlet_executable *executable);

/* Gives a reference back. Returns 1 when it was the last one: nothing runs in the units any more
 * and they may be unloaded. Each binding holds a reference. */
CIRCLET_EXPORT uint32_t circlet_executable_release(circlet_executable *executable);

/* Gives a plan an arena (zeroed once), scratch memory per thread and the caller's buffers. Buffers
 * may be null until circlet_binding_set_*. `threads` counts the calling thread; trials, at first
 * and ever rarer, find out by the times of runs which steps are worth more than one. Runs of a process
 * that are in progress side by side get equal parts of the cores, and no more threads than that. */
CIRCLET_EXPORT uint32_t circlet_binding_create(circlet_executable *executable,
                                               void *const *inputs, void *const *outputs,
                                               uint32_t threads, circlet_binding **out);

/* Fails with CIRCLET_BUSY, and destroys nothing, while the binding runs. */
CIRCLET_EXPORT uint32_t circlet_binding_destroy(circlet_binding *binding);

CIRCLET_EXPORT uint32_t circlet_binding_set_input(circlet_binding *binding, uint32_t index,
                                                  void *buffer);
CIRCLET_EXPORT uint32_t circlet_binding_set_output(circlet_binding *binding, uint32_t index,
                                                   void *buffer);

/* Where the arena starts, and what all bindings of an executable share: for observers. */
CIRCLET_EXPORT void *circlet_binding_arena(circlet_binding *binding);
CIRCLET_EXPORT void *circlet_binding_resident(circlet_binding *binding);

/* Has every run write the nanoseconds of each step to `step_ns`; null stops it. */
CIRCLET_EXPORT uint32_t circlet_binding_profile(circlet_binding *binding, uint64_t *step_ns);

/* Has every run write the nanoseconds that each thread worked on each step to `busy_ns`, which has a
 * place for each thread of the binding in each step; null stops it. It takes a clock for each chunk. */
CIRCLET_EXPORT uint32_t circlet_binding_profile_threads(circlet_binding *binding,
                                                        uint64_t *busy_ns);

/* Is told of a step that has run, on the thread that called circlet_run. It may call
 * circlet_cancel on the binding, and nothing else of it; and run no other of its executable. */
typedef void circlet_observer(void *context, uint32_t step, uint64_t ns);

/* Has every run tell `observer` of each step, the time that it takes itself left out; null stops
 * it. */
CIRCLET_EXPORT uint32_t circlet_binding_observe(circlet_binding *binding,
                                                circlet_observer *observer, void *context);

/* Which step of the last run refused what an operand holds, where that ended in
 * CIRCLET_BAD_OPERAND. */
CIRCLET_EXPORT uint32_t circlet_binding_refused_step(const circlet_binding *binding);

/* Runs all steps; those that depend on no run only where no binding of the executable has run them,
 * or while another one does waits for it. With a timeout other than 0 the run ends soon after it, inside of long steps too;
 * the outputs are then undefined. The floating-point state of the caller is kept. */
CIRCLET_EXPORT uint32_t circlet_run(circlet_binding *binding, uint64_t timeout_ns);

/* Has the run in progress end soon, inside of long steps too; without one it does nothing. */
CIRCLET_EXPORT void circlet_cancel(circlet_binding *binding);

/* Says whether a run is to end. */
typedef uint32_t circlet_interrupt(void);

/* Has every run on the main thread of the process ask now and then, ten times a second at most, and
 * never in its first tenth of a second; null stops it. For handlers of signals that run only where
 * somebody calls them, as those of Python do. */
CIRCLET_EXPORT void circlet_ask_interrupt(circlet_interrupt *interrupt);

CIRCLET_EXPORT uint32_t circlet_abi_version(void);

/* Worker threads that the shared pool of this process has made so far. */
CIRCLET_EXPORT uint32_t circlet_pool_workers(void);

/* Cores on which the calling thread may be scheduled. */
CIRCLET_EXPORT uint32_t circlet_usable_cores(void);

#endif
