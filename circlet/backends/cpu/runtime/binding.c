/* A plan with memory: resolved operands, arena, scratch; and the loop that runs it. */
#include "executable.h"
#include "pool.h"
#include "resident.h"
#include "schedule.h"
#include "sys.h"

#define PAGE 4096u
#define NO_OPERAND UINT32_MAX

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

static void leave(circlet_binding *binding) {
    __atomic_store_n(&binding->state, 0, __ATOMIC_RELEASE);
}

static uint32_t enter_now(circlet_binding *binding) {
    binding->pool = pool_of_process();
    return enter(binding, pool_process_token(binding->pool));
}

CIRCLET_EXPORT uint32_t circlet_binding_destroy(circlet_binding *binding) {
    if (!enter_now(binding))
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
    if (!enter_now(binding))
        return CIRCLET_BUSY;
    set_port(binding, &binding->ports[first + index], buffer);
    leave(binding);
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
    if (!enter_now(binding))
        return CIRCLET_BUSY;
    binding->step_ns = step_ns;
    leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_profile_threads(circlet_binding *binding,
                                                        uint64_t *busy_ns) {
    if (!enter_now(binding))
        return CIRCLET_BUSY;
    binding->busy_ns = busy_ns;
    leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_observe(circlet_binding *binding,
                                                circlet_observer *observer, void *context) {
    if (!enter_now(binding))
        return CIRCLET_BUSY;
    binding->observer = observer;
    binding->observer_context = context;
    leave(binding);
    return CIRCLET_OK;
}

CIRCLET_EXPORT uint32_t circlet_binding_refused_step(const circlet_binding *binding) {
    return binding->watch.refused_step;
}

static inline void run_step(circlet_binding *binding, uint32_t index, uint32_t threads) {
    const bound_step *step = &binding->steps[index];
    uint64_t *busy_ns = binding->busy_ns;
    binding->watch.step = index;
    if (busy_ns)
        busy_ns += (uint64_t)index * binding->threads;
    if (threads > 1 && step->chunks > 1 && !step->is_serial) {
        team_run_step(binding->team, step, binding->scratch, threads, &binding->watch, busy_ns);
        return;
    }
    uint64_t start = busy_ns ? sys_now_ns() : 0;
    if (step->tasks)
        run_tasks(step, binding->scratch.base, 0, step->tasks, &binding->watch);
    if (busy_ns)
        *busy_ns += sys_now_ns() - start;
}

/* What threads took is counted anew in every run. */
static void clear_clocks(circlet_binding *binding) {
    uint64_t *busy_ns = binding->busy_ns, places = binding->step_count;
    for (uint64_t i = 0; binding->step_ns && i < places; i++)
        binding->step_ns[i] = 0;
    for (uint64_t i = 0; busy_ns && i < places * binding->threads; i++)
        busy_ns[i] = 0;
}

/* The step after a control step, which is bound without a kernel. */
static inline uint32_t step_after(const bound_step *control, uint32_t index) {
    uint32_t stays = control->chunks == CIRCLET_JUMP_UNLESS && *(const char *)control->operands[0];
    return stays ? index + 1 : (uint32_t)control->tasks;
}

/* The clock is read only where somebody wants to know: a deadline, a profile, a trial, or after much
 * work. Jumps backwards, onto themselves too, are turns of loops, and the plan says how many one run
 * may do, and how much work. */
static uint32_t run_steps(circlet_binding *binding, uint32_t first, uint32_t end,
                          uint64_t deadline_ns, uint32_t threads) {
    uint64_t *step_ns = binding->step_ns;
    schedule *schedule = &binding->schedule;
    bound_step *steps = binding->steps + first;
    uint32_t is_sampled = end == binding->step_count && /* what runs once teaches nothing */
                          !binding->observer && /* what an observer does is not the steps' time */
                          schedule_next(schedule, steps, end - first, threads);
    uint32_t timed = deadline_ns || step_ns || is_sampled || binding->observer;
    uint64_t start = timed ? sys_now_ns() : 0, before = start;
    uint32_t turns_left = binding->executable->plan->most_turns;
    uint64_t work = 0, most_work = binding->executable->plan->most_work;
    uint64_t weight = 0, next_look = WORK_PER_LOOK;
    for (uint32_t i = first, next; i < end; i = next) {
        bound_step *step = &binding->steps[i];
        if (__atomic_load_n(&binding->state, __ATOMIC_RELAXED) & CANCELLED_BIT)
            return CIRCLET_CANCELLED;
        if (deadline_ns && before >= deadline_ns)
            return CIRCLET_TIMEOUT;
        next = i + 1;
        if (step->kernel)
            run_step(binding, i, threads);
        else
            next = step_after(step, i);
        if (next <= i && !turns_left--)
            return CIRCLET_TOO_MANY_TURNS;
        work += step->work;
        weight += step->work + (uint64_t)STEP_WEIGHT;
        if (weight >= next_look) {
            next_look = weight + WORK_PER_LOOK;
            if (watch_look(&binding->watch))
                return binding->watch.status;
            if (work > most_work)
                return CIRCLET_TOO_MUCH_WORK;
        }
        if (!timed)
            continue;
        uint64_t now = sys_now_ns();
        if (step_ns)
            step_ns[i] += now - before;
        if (is_sampled)
            schedule_record_step(schedule, step, now - before);
        if (binding->observer) {
            binding->observer(binding->observer_context, i, now - before);
            now = sys_now_ns();
        }
        before = now;
    }
    if (is_sampled)
        schedule_record_run(schedule, steps, end - first, threads, before - start);
    return binding->watch.status; /* a kernel may have stopped */
}

/* Runs what depends on no run, unless a binding of the executable did. */
static uint32_t make_resident(circlet_binding *binding, uint64_t deadline_ns, uint32_t threads) {
    circlet_executable *executable = binding->executable;
    uint64_t token = pool_process_token(binding->pool);
    uint32_t is_maker = 0, status = resident_begin(executable, token, &binding->watch, &is_maker);
    if (is_maker) {
        uint32_t count = (uint32_t)executable->plan->once_steps;
        status = run_steps(binding, 0, count, deadline_ns, threads);
        resident_end(executable, status);
    }
    return status;
}

static uint32_t run_plan(circlet_binding *binding, uint64_t deadline_ns, uint32_t threads) {
    clear_clocks(binding);
    uint32_t first = (uint32_t)binding->executable->plan->once_steps;
    uint32_t status = first ? make_resident(binding, deadline_ns, threads) : CIRCLET_OK;
    return status ? status : run_steps(binding, first, binding->step_count, deadline_ns, threads);
}

/* Takes a team for a run; returns how many threads it has, of which 1 stands for no team. */
static uint32_t begin_on_team(circlet_binding *binding) {
    uint32_t threads = binding->threads;
    binding->team = pool_begin_run(binding->pool, &threads, &binding->team_place);
    return threads;
}

static void end_on_team(circlet_binding *binding) {
    if (binding->team)
        schedule_record_wait(&binding->schedule, binding->team->late_ns);
    pool_end_run(binding->pool, binding->team);
}

/* Kernels rely on the default floating-point state: the caller may flush denormals, or round
 * otherwise, and finds its own state again. */
static uint32_t run_entered(circlet_binding *binding, uint64_t timeout_ns) {
    if (binding->missing)
        return CIRCLET_BAD_PORT;
    uint64_t now = timeout_ns ? sys_now_ns() : 0;
    uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    uint32_t is_serial = binding->threads == 1 || schedule_rests(&binding->schedule);
    uint32_t threads = is_serial ? 1 : begin_on_team(binding);
    uint64_t state = cpu_float_state();
    if (state != CPU_FLOAT_DEFAULT)
        cpu_set_float_state(CPU_FLOAT_DEFAULT);
    watch_start(&binding->watch, &binding->state, deadline);
    uint32_t status = run_plan(binding, deadline, threads);
    cpu_set_float_state(state);
    if (!is_serial)
        end_on_team(binding);
    return status;
}

CIRCLET_EXPORT uint32_t circlet_run(circlet_binding *binding, uint64_t timeout_ns) {
    if (!enter_now(binding))
        return CIRCLET_BUSY;
    uint32_t status = run_entered(binding, timeout_ns);
    leave(binding);
    return status;
}

/* Keeps the token, so that the run still owns the binding; an idle binding stays idle. */
CIRCLET_EXPORT void circlet_cancel(circlet_binding *binding) {
    uint64_t seen = __atomic_load_n(&binding->state, __ATOMIC_RELAXED);
    while (seen && !__atomic_compare_exchange_n(&binding->state, &seen, seen | CANCELLED_BIT, 0,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
