/* The loop over the steps of a bound plan, and what begins, ends and cancels a run. */
#include "binding.h"
#include "resident.h"
#include "sys.h"

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
    if (!binding_enter(binding))
        return CIRCLET_BUSY;
    uint32_t status = run_entered(binding, timeout_ns);
    binding_leave(binding);
    return status;
}

/* Keeps the token, so that the run still owns the binding; an idle binding stays idle. */
CIRCLET_EXPORT void circlet_cancel(circlet_binding *binding) {
    uint64_t seen = __atomic_load_n(&binding->state, __ATOMIC_RELAXED);
    while (seen && !__atomic_compare_exchange_n(&binding->state, &seen, seen | CANCELLED_BIT, 0,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
