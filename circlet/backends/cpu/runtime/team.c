/* Work stealing over chunks of a step, as pthreadpool does it: each thread has a share, the same
 * in every step, so that its core meets the same part of the buffers again, takes it from the
 * front, and then steals from the back of the shares of others. Nobody waits for a worker that
 * claimed nothing: one that the system does not schedule delays no step. One that the system
 * stopped with a chunk in its hands is taken to the caller's core, which has nothing else to do.
 *
 * What a step costs on many cores is the cache lines that they hand each other, a tenth of a
 * microsecond and more apiece. So a worker counts what it did in a line of its own, and the caller
 * adds the counts up: its reads overlap, where updates of one counter would follow each other. A
 * worker steals from few others, the caller from all of them, and only where a step is not over
 * about as soon as its own share is: looking at a share takes its line from the thread that claims
 * there.
 *
 * Memory orders. `offer` writes the step and then releases the tickets; a claim acquires them,
 * so who has claimed sees the step. Workers release `done` behind their chunks and the caller
 * acquires it, so the next step sees all results. A worker parks by raising `parked` and then
 * looking at its ticket once more, the caller offers tickets and then looks at `parked`; as both
 * order the store before the load sequentially consistently (Dekker), at least one of them sees
 * the other, and no wake-up is lost. `caller_sleeps` and `done` are such a pair, too. */
#include "team.h"

#include "sys.h"

/* An idle worker parks after this. Steps of a run follow each other within microseconds, faster
 * than a futex wakes a thread; between runs a spinning worker only takes power from the others. */
#define SPIN_NS 200000u
#define EAGER_SPINS 2000u /* pauses before a spinning thread starts to yield its core */
#define LATE_NS 50000u /* a caller that waited so long for workers looks whether they are stopped */
#define SEARCH_NS 10000u /* in which the clock of a worker that runs goes on; some are coarse */
#define SLEEP_NS 1000000u /* of the caller, while workers have its core */

static inline ticket make_ticket(uint32_t threads, uint32_t end, uint32_t begin) {
    return (ticket)threads << 32 | (ticket)end << 16 | begin;
}

static inline uint32_t ticket_threads(ticket t) { return (uint32_t)(t >> 32); }
static inline uint32_t ticket_end(ticket t) { return (uint32_t)(t >> 16) & 0xFFFFu; }
static inline uint32_t ticket_begin(ticket t) { return (uint32_t)t & 0xFFFFu; }

/* A bounded wait: pauses at first, then gives the core to whoever needs it. */
static inline void spin(uint32_t *spins) {
    if (++*spins < EAGER_SPINS)
        cpu_pause();
    else
        sys_yield();
}

/* The first task of a chunk; of the chunk behind the last one, the number of tasks. */
static inline int64_t first_task(const bound_step *step, uint32_t chunk) {
    return chunk * step->quotient + (int64_t)(chunk * step->remainder / step->chunks);
}

static void run_chunk(const thread_team *team, const bound_step *step, uint32_t chunk,
                      uint32_t thread) {
    char *scratch = team->scratch.base + thread * team->scratch.stride;
    uint64_t *busy_ns = team->busy_ns, start = busy_ns ? sys_now_ns() : 0;
    run_tasks(step, scratch, first_task(step, chunk), first_task(step, chunk + 1), team->watch);
    if (busy_ns)
        busy_ns[thread] += sys_now_ns() - start;
}

/* Claims chunks of a share one by one and runs them; returns how many. Only after the claim may the
 * step be looked at: until a claimed chunk is done the caller waits, and changes nothing. A ticket
 * that was seen in an earlier step and is there again stands for the same chunks of this one, which
 * the claim acquires: that the word was changed between (ABA) does no harm. */
static uint32_t run_share(thread_team *team, uint32_t owner, uint32_t thread) {
    const share *from = &team->shares[owner];
    ticket *open = &team->shares[owner].open;
    ticket seen = __atomic_load_n(open, __ATOMIC_ACQUIRE);
    uint32_t count = 0;
    for (;;) {
        uint32_t begin = ticket_begin(seen), end = ticket_end(seen);
        if (begin >= end || thread >= ticket_threads(seen))
            return count;
        ticket next = thread == owner ? seen + 1 : seen - ((ticket)1 << 16);
        if (!__atomic_compare_exchange_n(open, &seen, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        run_chunk(team, from->step, thread == owner ? begin : end - 1, thread);
        count++;
        seen = __atomic_load_n(open, __ATOMIC_ACQUIRE);
    }
}

static void report_done(worker *worker, uint32_t chunks) {
    thread_team *team = worker->team;
    if (!chunks)
        return;
    __atomic_store_n(&worker->done, worker->done + chunks, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->caller_sleeps, __ATOMIC_SEQ_CST)) {
        __atomic_fetch_add(&team->reports, 1, __ATOMIC_SEQ_CST);
        sys_wake(&team->reports);
    }
}

/* Chunks that the workers of a step were done with, in all steps. */
static uint32_t sum_done(const thread_team *team, uint32_t threads) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i + 1 < threads; i++)
        sum += __atomic_load_n(&team->workers[i].done, __ATOMIC_SEQ_CST);
    return sum;
}

/* A worker's part in a step. It reports its own share before it looks at those of others, 1, 2, 4,
 * .. further: the caller may be waiting for that alone. */
static void run_as_worker(worker *worker) {
    thread_team *team = worker->team;
    uint32_t thread = worker->index;
    __atomic_store_n(&worker->at_work, 1, __ATOMIC_RELAXED);
    report_done(worker, run_share(team, thread, thread));
    ticket own = __atomic_load_n(&team->shares[thread].open, __ATOMIC_RELAXED);
    uint32_t threads = ticket_threads(own);
    for (uint32_t further = 1; further < threads; further *= 2)
        report_done(worker, run_share(team, (thread + further) % threads, thread));
    __atomic_store_n(&worker->at_work, 0, __ATOMIC_RELAXED);
}

static uint32_t has_work(thread_team *team, uint32_t thread) {
    ticket seen = __atomic_load_n(&team->shares[thread].open, __ATOMIC_SEQ_CST);
    return ticket_begin(seen) < ticket_end(seen) && thread < ticket_threads(seen);
}

/* Sleeps until there is work, whatever else ends a wait. The first look comes after `parked` is
 * raised, see the top. */
static void park(worker *worker) {
    __atomic_store_n(&worker->parked, 1, __ATOMIC_SEQ_CST);
    while (!has_work(worker->team, worker->index) &&
           __atomic_load_n(&worker->parked, __ATOMIC_ACQUIRE))
        sys_wait(&worker->parked, 1);
    __atomic_store_n(&worker->parked, 0, __ATOMIC_RELAXED);
}

/* A worker on the caller's core only takes time from it. One that waits would stay: the system
 * finds a place for threads that wake, but leaves those that never sleep where they are. */
static void leave_caller(const thread_team *team) {
    uint32_t core = __atomic_load_n(&team->core, __ATOMIC_RELAXED);
    if ((uint32_t)sched_getcpu() == core)
        sys_leave_core(core);
}

/* Returns when there is something to claim, or when the bounded spin is over. */
static uint32_t await_work(thread_team *team, uint32_t thread) {
    uint64_t deadline = sys_now_ns() + SPIN_NS;
    uint32_t spins = 0;
    while (!has_work(team, thread)) {
        spin(&spins);
        if (spins % 64 != 0)
            continue;
        leave_caller(team);
        if (sys_now_ns() > deadline)
            return 0;
    }
    return 1;
}

void team_serve(worker *worker) {
    for (;;) {
        run_as_worker(worker);
        if (await_work(worker->team, worker->index))
            continue;
        park(worker);
        leave_caller(worker->team);
    }
}

static void wake_workers(thread_team *team, uint32_t threads) {
    for (uint32_t i = 0; i + 1 < threads; i++) {
        uint32_t *parked = &team->workers[i].parked;
        if (!__atomic_load_n(parked, __ATOMIC_SEQ_CST))
            continue;
        __atomic_store_n(parked, 0, __ATOMIC_SEQ_CST);
        sys_wake(parked);
    }
}

/* Offers the chunks of a step in shares that differ by a chunk at most. The caller has the first
 * chunk already. */
static void offer(thread_team *team, const bound_step *step, uint32_t threads) {
    uint32_t size = step->chunks / threads, larger = step->chunks % threads;
    for (uint32_t i = 0, begin = 0; i < threads; i++) {
        uint32_t end = begin + size + (i < larger);
        ticket t = make_ticket(threads, end, i ? begin : 1);
        team->shares[i].step = step;
        __atomic_store_n(&team->shares[i].open, t, __ATOMIC_RELEASE);
        begin = end;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* workers that park look at their share once more */
}

/* For how long a worker that may hold a chunk was on a core; 0 for others. */
static uint64_t ns_at_work(const worker *worker) {
    if (!__atomic_load_n(&worker->at_work, __ATOMIC_RELAXED))
        return 0;
    return sys_thread_ns(__atomic_load_n(&worker->thread, __ATOMIC_RELAXED));
}

/* Takes workers that hold chunks, and that the system has put aside for something else, to the
 * caller's core, where they may have it. Those that run are seen by their clocks, and are left
 * alone. Returns how many are stopped. */
static uint32_t fetch_stopped(thread_team *team, uint32_t threads) {
    uint64_t before[CIRCLET_MAX_THREADS];
    uint32_t core = (uint32_t)sched_getcpu(), count = 0;
    for (uint32_t i = 0; i + 1 < threads; i++)
        before[i] = ns_at_work(&team->workers[i]);
    for (uint64_t start = sys_now_ns(); sys_now_ns() - start < SEARCH_NS;)
        cpu_pause();
    for (uint32_t i = 0; i + 1 < threads; i++) {
        const worker *worker = &team->workers[i];
        if (!before[i] || ns_at_work(worker) != before[i])
            continue;
        sys_move_thread(__atomic_load_n(&worker->thread, __ATOMIC_RELAXED), core);
        count++;
    }
    if (count)
        __atomic_store_n(&team->core, core, __ATOMIC_RELAXED);
    return count;
}

/* Leaves the core to workers until one of them is done with something. */
static void sleep_beside_workers(thread_team *team, uint32_t expected, uint32_t threads) {
    uint32_t reports = __atomic_load_n(&team->reports, __ATOMIC_RELAXED);
    __atomic_store_n(&team->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    if (sum_done(team, threads) != expected)
        sys_wait_for(&team->reports, reports, SLEEP_NS);
    __atomic_store_n(&team->caller_sleeps, 0, __ATOMIC_RELAXED);
}

/* Waits for about as long as looking at all shares takes; 1 where the step is over. */
static uint32_t await_briefly(const thread_team *team, uint32_t expected, uint32_t threads) {
    for (uint32_t i = 0; i < threads; i++) {
        if (sum_done(team, threads) == expected)
            return 1;
        cpu_pause();
    }
    return 0;
}

/* Waits for chunks that workers have claimed; also looks whether the run is to end, as workers do
 * not ask interrupts. It gives its core away only where that helps: yielding it to a busy system
 * would take longer than the wait. */
static void await_done(thread_team *team, uint32_t expected, uint32_t threads) {
    uint64_t next = 0, stopped = 0;
    for (uint32_t spins = 0; sum_done(team, threads) != expected;) {
        cpu_pause();
        if (++spins % 64 != 0)
            continue;
        uint64_t now = sys_now_ns();
        next = next ? next : now + LATE_NS;
        if (now < next)
            continue;
        watch_look(team->watch);
        if (fetch_stopped(team, threads)) {
            stopped = stopped ? stopped : now;
            sleep_beside_workers(team, expected, threads);
        }
        next = sys_now_ns() + LATE_NS;
    }
    if (stopped)
        team->late_ns += sys_now_ns() - stopped;
}

/* What is the same for all steps of a run, and stays in the caches of workers while it is. */
static void set_run(thread_team *team, scratch_area scratch, watch *watch, uint64_t *busy_ns) {
    if (team->scratch.base == scratch.base && team->scratch.stride == scratch.stride &&
        team->watch == watch && team->busy_ns == busy_ns)
        return;
    team->scratch = scratch;
    team->watch = watch;
    team->busy_ns = busy_ns;
}

/* The caller works through its own share and then all others, and waits only for chunks that
 * workers have claimed. Counts are compared modulo 2^32, and never set back. */
void team_run_step(thread_team *team, const bound_step *step, scratch_area scratch,
                   uint32_t threads, watch *watch, uint64_t *busy_ns) {
    threads = step->chunks < threads ? step->chunks : threads;
    set_run(team, scratch, watch, busy_ns);
    uint32_t expected = sum_done(team, threads) + step->chunks - 1;
    offer(team, step, threads);
    wake_workers(team, threads);
    run_chunk(team, step, 0, 0);
    expected -= run_share(team, 0, 0);
    if (await_briefly(team, expected, threads))
        return;
    for (uint32_t owner = 1; owner < threads; owner++)
        expected -= run_share(team, owner, 0);
    await_done(team, expected, threads);
}
