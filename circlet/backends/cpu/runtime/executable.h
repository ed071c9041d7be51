#ifndef CIRCLET_EXECUTABLE_H
#define CIRCLET_EXECUTABLE_H

#include <stddef.h>

#include "circlet_runtime.h"

#define CIRCLET_MAX_MEMORY (UINTPTR_MAX >> 9) /* arena or scratch bytes that a plan may ask for */
#define CIRCLET_MAX_PORTS (1u << 24) /* inputs, or outputs */

struct circlet_executable {
    uint32_t references;
    size_t bytes;
    const circlet_plan *plan;
    const char *constants;
    char *resident;          /* what the once_steps of the plan make; null where they make nothing */
    uint64_t resident_state; /* as resident.c has it */
    uint32_t maker;          /* the thread that makes it */
    const circlet_unit *units[];
};

static inline const circlet_step *plan_steps(const circlet_plan *plan) {
    return (const circlet_step *)(plan + 1);
}

static inline const circlet_operand *plan_operands(const circlet_plan *plan) {
    return (const circlet_operand *)(plan_steps(plan) + plan->step_count);
}

#endif
