/* A plan with memory: resolved operands, arena, scratch, and the caller's buffers. */
#include "binding.h"
#include "sys.h"

#define PAGE 4096u
#define NO_OPERAND UINT32_MAX

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/* Lays the tables, the arena and the scratch areas behind the struct; returns the total size.
 * All of a binding is one mapping: zeroed, freed in one call, and cleared of nothing in between.
 * Scratch areas are whole pages apart, so that no two threads write one cache line. */
static uint64_t lay_out(circlet_binding *binding, char *base, const circlet_plan *plan,
                        uint32_t threads) {
    uint64_t ports = (uint64_t)plan->input_count + plan->output_count;
    uint64_t at = round_up(sizeof *binding, 64);
    binding->steps = (bound_step *)(base + at);
    at = round_up(at + (uint64_t)plan->step_count * sizeof *binding->steps, 64);
    binding->operands = (void **)(base + at);
    at = round_up(at + (uint64_t)plan->operand_count * sizeof *binding->operands, 64);
    binding->next_operand = (uint32_t *)(base + at);
    at = round_up(at + (uint64_t)plan->operand_count * sizeof *binding->next_operand, 64);
    binding->ports = (port *)(base + at);
    at = round_up(at + ports * sizeof *binding->ports, PAGE);
    binding->arena = base + at;
    at = round_up(at + plan->arena_bytes, PAGE);
    binding->scratch.base = base + at;
    binding->scratch.stride = round_up(plan->scratch_bytes, PAGE);
    return at + binding->scratch.stride * threads;
}

static port *port_of(circlet_binding *binding, const circlet_operand *operand) {
    uint32_t inputs = binding->executable->plan->input_count;
    if (operand->space == CIRCLET_INPUT)
        return &binding->ports[operand->index];
    return operand->space == CIRCLET_OUTPUT ? &binding->ports[inputs + operand->index] : NULL;
}

/* The address of what does not change with the caller's buffers; null for ports. */
static void *fixed_address(circlet_binding *binding, const circlet_operand *operand) {
    if (operand->space == CIRCLET_ARENA)
        return binding->arena + operand->offset;
    if (operand->space == CIRCLET_CONSTANT)
        return (char *)binding->executable->constants + operand->offset;
    if (operand->space == CIRCLET_PARAMS) {
        const circlet_plan *plan = binding->executable->plan;
        return (char *)plan + plan->params_offset + operand->offset;
    }
    if (operand->space == CIRCLET_KERNEL)
        return (void *)binding->executable->units[operand->index]->kernels[operand->offset];
    if (operand->space == CIRCLET_STOP)
        return &binding->watch.stop;
    if (operand->space == CIRCLET_RESIDENT)
        return binding->executable->resident + operand->offset;
    return NULL;
}

/* Links the operands of each port, so that a new buffer is written to them alone. */
static void chain_operands(circlet_binding *binding) {
    const circlet_plan *plan = binding->executable->plan;
    for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++)
        binding->ports[i].first_operand = NO_OPERAND;
    for (uint32_t i = 0; i < plan->operand_count; i++) {
        const circlet_operand *operand = &plan_operands(plan)[i];
        port *owner = port_of(binding, operand);
        binding->operands[i] = fixed_address(binding, operand);
        if (!owner)
            continue;
        binding->missing += owner->first_operand == NO_OPERAND;
        binding->next_operand[i] = owner->first_operand;
        owner->first_operand = i;
    }
}

/* So many tasks that their work is WORK_PER_LOOK; 0 where that of all is less. */
static int64_t tasks_per_look(const circlet_step *step) {
    if (step->work <= WORK_PER_LOOK)
        return 0;
    int64_t tasks = step->tasks / (step->work / WORK_PER_LOOK);
    return tasks ? tasks : 1;
}

static void bind_steps(circlet_binding *binding) {
    const circlet_plan *plan = binding->executable->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const circlet_step *step = &plan_steps(plan)[i];
        bound_step *bound = &binding->steps[i];
        bound->operands = binding->operands + step->first_operand;
        bound->tasks = step->tasks;
        bound->work = step->work;
        bound->tasks_per_look = tasks_per_look(step);
        if (step->unit == CIRCLET_CONTROL) {
            bound->chunks = step->kernel;
            continue;
        }
        bound->kernel = binding->executable->units[step->unit]->kernels[step->kernel];
        bound->params = (const char *)plan + plan->params_offset + step->params_offset;
        schedule_split(bound, binding->threads, step->work / WORK_PER_CHUNK);
    }
}

/* `missing` counts ports in use without a buffer; the difference of both states is -1, 0 or 1. */
static void set_port(circlet_binding *binding, port *port, char *buffer) {
    const circlet_operand *table = plan_operands(binding->executable->plan);
    uint32_t used = port->first_operand != NO_OPERAND;
    binding->missing += used * ((uint32_t)!buffer - (uint32_t)!port->buffer);
    port->buffer = buffer;
    for (uint32_t i = port->first_operand; i != NO_OPERAND; i = binding->next_operand[i])
        binding->operands[i] = buffer ? buffer + table[i].offset : NULL;
}

static void set_ports(circlet_binding *binding, port *ports, void *const *buffers, uint32_t count) {
    for (uint32_t i = 0; buffers && i < count; i++)
        set_port(binding, &ports[i], buffers[i]);
}

CIRCLET_EXPORT uint32_t circlet_binding_create(circlet_executable *executable,
                                               void *const *inputs, void *const *outputs,
                                               uint32_t threads, circlet_binding **out) {
    const circlet_plan *plan = executable->plan;
    circlet_binding sizes = {0};
    threads = threads < 1 ? 1 : threads > CIRCLET_MAX_THREADS ? CIRCLET_MAX_THREADS : threads;
    uint64_t bytes = lay_out(&sizes, NULL, plan, threads); /* at first only to know the size */
    circlet_pool *pool = pool_of_process();
    circlet_binding *made = pool && bytes <= SIZE_MAX / 2 ? sys_allocate((size_t)bytes) : NULL;
    if (!made)
        return CIRCLET_NO_MEMORY;
    lay_out(made, (char *)made, plan, threads);
    made->pool = pool;
    made->bytes = (size_t)bytes;
    made->executable = executable;
    made->threads = threads;
    made->step_count = plan->step_count;
    watch_init(&made->watch);
    circlet_executable_retain(executable);
    chain_operands(made);
    bind_steps(made);
    set_ports(made, made->ports, inputs, plan->input_count);
    set_ports(made, made->ports + plan->input_count, outputs, plan->output_count);
    *out = made;
    return CIRCLET_OK;
}

/* Marks the binding as in use. A mark left by a thread that a fork did not copy holds the token of
 * another process, and is void. */
static uint32_t enter(circlet_binding *binding, uint64_t token) {
    uint64_t seen = __atomic_load_n(&binding->state, __ATOMIC_RELAXED);
    if ((seen & ~(uint64_t)CANCELLED_BIT) == token)
        return 0;
    return __atomic_compare_exchange_n(&binding->state, &seen, token, 0, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

uint32_t binding_enter(circlet_binding *binding) {
    binding->pool = pool_of_process();
    return enter(binding, pool_process_token(binding->pool));
}

void binding_leave(circlet_binding *binding) {
    __atomic_store_n(&binding->state, 0, __ATOMIC_RELEASE);
}

CIRCLET_EXPORT uint32_t circlet_binding_destroy(circlet_binding *binding) {
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    circlet_executable *executable = binding->executable;
    sys_free(binding, binding->bytes);
    circlet_executable_release(executable);
    return CIRCLET_OK;
}

static uint32_t replace_buffer(circlet_binding *binding, uint32_t first, uint32_t count,
                               uint32_t index, void *buffer) {
    if (index >= count)
        return CIRCLET_BAD_PORT;
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    set_port(binding, &binding->ports[first + index], buffer);
    binding_leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_set_input(circlet_binding *binding, uint32_t index,
                                                  void *buffer) {
    return replace_buffer(binding, 0, binding->executable->plan->input_count, index, buffer);
}

CIRCLET_EXPORT uint32_t circlet_binding_set_output(circlet_binding *binding, uint32_t index,
                                                   void *buffer) {
    const circlet_plan *plan = binding->executable->plan;
    return replace_buffer(binding, plan->input_count, plan->output_count, index, buffer);
}

CIRCLET_EXPORT void *circlet_binding_arena(circlet_binding *binding) { return binding->arena; }

CIRCLET_EXPORT void *circlet_binding_resident(circlet_binding *binding) {
    return binding->executable->resident;
}

CIRCLET_EXPORT uint32_t circlet_binding_profile(circlet_binding *binding, uint64_t *step_ns) {
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    binding->step_ns = step_ns;
    binding_leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_profile_threads(circlet_binding *binding,
                                                        uint64_t *busy_ns) {
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    binding->busy_ns = busy_ns;
    binding_leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_observe(circlet_binding *binding,
                                                circlet_observer *observer, void *context) {
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    binding->observer = observer;
    binding->observer_context = context;
    binding_leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_refused_step(const circlet_binding *binding) {
    return binding->watch.refused_step;
}
