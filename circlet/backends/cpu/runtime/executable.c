/* Checks a plan completely before anything in it is used: a damaged artifact must not make the
 * runtime read or write outside of its tables. That an operand starts inside its space is
 * checked here; how far a kernel reaches from there follows from its parameters, which only the
 * compiler can check (docs/security.md). */
#include "executable.h"

#include "sys.h"

static uint32_t is_aligned(const void *address, uintptr_t bytes) {
    return ((uintptr_t)address & (bytes - 1)) == 0;
}

/* The header and the extents of the tables behind it. Counts have 32 bits, so their products cannot
 * overflow 64; what comes from 64-bit fields is subtracted, not added. */
static uint32_t header_is_sound(const circlet_plan *plan, uint64_t plan_bytes) {
    if (!plan || !is_aligned(plan, 64) || plan_bytes < sizeof *plan)
        return 0;
    if (plan->magic != CIRCLET_PLAN_MAGIC || plan->abi_version != CIRCLET_ABI_VERSION)
        return 0;
    uint64_t tables = sizeof *plan + (uint64_t)plan->step_count * sizeof(circlet_step) +
                      (uint64_t)plan->operand_count * sizeof(circlet_operand);
    if (plan->params_offset < tables || plan->params_offset % 64 != 0)
        return 0;
    return plan->params_offset <= plan_bytes &&
           plan->params_bytes <= plan_bytes - plan->params_offset;
}

static uint32_t sizes_are_sound(const circlet_plan *plan) {
    return plan->arena_bytes <= CIRCLET_MAX_MEMORY && plan->scratch_bytes <= CIRCLET_MAX_MEMORY &&
           plan->resident_bytes <= CIRCLET_MAX_MEMORY && plan->once_steps <= plan->step_count &&
           plan->input_count <= CIRCLET_MAX_PORTS && plan->output_count <= CIRCLET_MAX_PORTS;
}

static uint32_t has_kernel(const circlet_plan *plan, const circlet_unit *const *units,
                           uint32_t unit, uint64_t kernel) {
    return unit < plan->unit_count && kernel < units[unit]->kernel_count &&
           units[unit]->kernels[kernel];
}

static uint32_t operand_is_sound(const circlet_plan *plan, const circlet_operand *operand,
                                 const circlet_unit *const *units) {
    uint64_t offset = (uint64_t)operand->offset;
    if (operand->offset < 0)
        return 0;
    switch (operand->space) {
    case CIRCLET_NONE: return 1;
    case CIRCLET_STOP: return 1;
    case CIRCLET_ARENA: return offset <= plan->arena_bytes;
    case CIRCLET_CONSTANT: return offset <= plan->constants_bytes;
    case CIRCLET_INPUT: return operand->index < plan->input_count;
    case CIRCLET_OUTPUT: return operand->index < plan->output_count;
    case CIRCLET_PARAMS: return offset <= plan->params_bytes;
    case CIRCLET_RESIDENT: return offset <= plan->resident_bytes;
    case CIRCLET_KERNEL: return has_kernel(plan, units, operand->index, offset);
    default: return 0;
    }
}

static uint32_t unit_is_sound(const circlet_unit *unit) {
    return unit && unit->abi_version == CIRCLET_ABI_VERSION &&
           (unit->kernels || !unit->kernel_count);
}

static uint32_t operands_are_sound(const circlet_plan *plan, const circlet_step *step) {
    return step->first_operand <= plan->operand_count &&
           step->operand_count <= plan->operand_count - step->first_operand;
}

/* The condition of a jump must be a whole byte inside the arena or a port. No jump leaves, or
 * enters, what runs once. */
static uint32_t control_is_sound(const circlet_plan *plan, const circlet_step *step) {
    if (step->tasks < 0 || step->tasks > plan->step_count || !operands_are_sound(plan, step))
        return 0;
    if (step < plan_steps(plan) + plan->once_steps || (uint64_t)step->tasks < plan->once_steps)
        return 0;
    if (step->kernel == CIRCLET_JUMP)
        return 1;
    if (step->kernel != CIRCLET_JUMP_UNLESS || step->operand_count != 1)
        return 0;
    const circlet_operand *flag = &plan_operands(plan)[step->first_operand];
    if (flag->space == CIRCLET_ARENA)
        return (uint64_t)flag->offset < plan->arena_bytes;
    if (flag->space == CIRCLET_CONSTANT)
        return (uint64_t)flag->offset < plan->constants_bytes;
    if (flag->space == CIRCLET_PARAMS)
        return (uint64_t)flag->offset < plan->params_bytes;
    if (flag->space == CIRCLET_RESIDENT)
        return (uint64_t)flag->offset < plan->resident_bytes;
    return flag->space == CIRCLET_INPUT || flag->space == CIRCLET_OUTPUT;
}

static uint32_t step_is_sound(const circlet_plan *plan, const circlet_step *step,
                              const circlet_unit *const *units) {
    if (step->unit == CIRCLET_CONTROL)
        return control_is_sound(plan, step);
    if (!has_kernel(plan, units, step->unit, step->kernel) || !operands_are_sound(plan, step))
        return 0;
    return step->tasks >= 0 && step->params_offset % 16 == 0 &&
           step->params_offset <= plan->params_bytes;
}

static uint32_t plan_is_sound(const circlet_plan *plan, uint64_t plan_bytes,
                              const circlet_unit *const *units, uint32_t unit_count) {
    if (!header_is_sound(plan, plan_bytes) || !sizes_are_sound(plan))
        return 0;
    if (plan->unit_count != unit_count || (unit_count && !units))
        return 0;
    for (uint32_t i = 0; i < unit_count; i++)
        if (!unit_is_sound(units[i]))
            return 0;
    for (uint32_t i = 0; i < plan->operand_count; i++)
        if (!operand_is_sound(plan, &plan_operands(plan)[i], units))
            return 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (!step_is_sound(plan, &plan_steps(plan)[i], units))
            return 0;
    return 1;
}

/* Whether the system grants what the units need; asking again costs one system call. */
static uint32_t needs_are_granted(const circlet_unit *const *units, uint32_t unit_count) {
    uint32_t needs = 0;
    for (uint32_t i = 0; i < unit_count; i++)
        needs |= units[i]->needs;
    return !(needs & CIRCLET_NEEDS_TILES) || sys_permit_tiles();
}

CIRCLET_EXPORT uint32_t circlet_executable_create(const void *plan, uint64_t plan_bytes,
                                                  const void *constants, uint64_t constants_bytes,
                                                  const circlet_unit *const *units,
                                                  uint32_t unit_count, circlet_executable **out) {
    const circlet_plan *header = plan;
    if (!out || !plan_is_sound(header, plan_bytes, units, unit_count))
        return CIRCLET_BAD_PLAN;
    if (constants_bytes < header->constants_bytes || (header->constants_bytes && !constants))
        return CIRCLET_BAD_PLAN;
    if (!needs_are_granted(units, unit_count))
        return CIRCLET_NO_TILES;
    size_t bytes = sizeof(circlet_executable) + unit_count * sizeof units[0];
    circlet_executable *made = sys_allocate(bytes);
    if (!made)
        return CIRCLET_NO_MEMORY;
    if (header->resident_bytes) {
        made->resident = sys_allocate((size_t)header->resident_bytes);
        if (!made->resident) {
            sys_free(made, bytes);
            return CIRCLET_NO_MEMORY;
        }
    }
    made->references = 1;
    made->bytes = bytes;
    made->plan = header;
    made->constants = constants;
    for (uint32_t i = 0; i < unit_count; i++)
        made->units[i] = units[i];
    *out = made;
    return CIRCLET_OK;
}

CIRCLET_EXPORT void circlet_executable_retain(circlet_executable *executable) {
    __atomic_fetch_add(&executable->references, 1, __ATOMIC_RELAXED);
}

CIRCLET_EXPORT uint32_t circlet_executable_release(circlet_executable *executable) {
    if (__atomic_sub_fetch(&executable->references, 1, __ATOMIC_ACQ_REL))
        return 0;
    if (executable->resident)
        sys_free(executable->resident, (size_t)executable->plan->resident_bytes);
    sys_free(executable, executable->bytes);
    return 1;
}

CIRCLET_EXPORT uint32_t circlet_abi_version(void) { return CIRCLET_ABI_VERSION; }
