/* Work stealing over chunks of a step, as pthreadpool does it: each thread has a share, the same
 * in every step, so that its core meets the same part of the buffers again, takes it from the
 * front, and then steals from the back of the shares of others. Nobody waits for a worker that
 * claimed nothing: one that the system does not schedule delays no step.
 *
 * Memory orders. `offer` writes the step and then releases the tickets; a claim acquires them,
 * so who has claimed sees the step. Workers release `done` behind their chunks and the caller
 * acquires it, so the next step sees all results. A worker parks by raising `parked` and then
 * looking at its ticket once more, the caller offers tickets and then looks at `parked`; as both
 * order the store before the load sequentially consistently (Dekker), at least one of them sees
 * the other, and no wake-up is lost. */
#include "pool.h"

#include "sys.h"

#define CACHE_LINE 64
/* An idle worker parks after this. Steps of a run follow each other within microseconds, faster
 * than a futex wakes a thread; between runs a spinning worker only takes power from the others. */
#define SPIN_NS 200000u
#define EAGER_SPINS 2000u /* pauses before a spinning thread starts to yield its core */
#define SPINS_PER_LOOK 8192u /* of a caller that waits for workers, which do not ask interrupts */

/* The unclaimed chunks of a share in one word, so that one compare-and-swap claims: 16 bits each
 * of threads, end and begin. The share's thread takes from the begin, others take from the end.
 * Threads that this run does not have find their number too large and claim nothing. */
typedef uint64_t ticket;

typedef struct share {
    _Alignas(CACHE_LINE) ticket open;
} share;

typedef struct worker_slot {
    _Alignas(CACHE_LINE) uint32_t parked; /* futex word: 1 while the worker sleeps */
    uint32_t index;
    struct circlet_pool *pool;
} worker_slot;

/* Lies in pages that the kernel clears in a forked child: all zero is a pool without workers. */
struct circlet_pool {
    _Alignas(CACHE_LINE) const bound_step *step;
    scratch_area scratch;
    watch *watch;
    uint64_t *busy_ns;
    uint32_t core; /* on which the caller was when it took the pool */
    _Alignas(CACHE_LINE) uint32_t done; /* chunks that workers were done with, in all steps */
    _Alignas(CACHE_LINE) uint32_t taken;
    uint32_t expected; /* `done` when the last step was over */
    uint32_t worker_count;
    uint32_t process; /* set where the kernel cannot clear pages on fork */
    uint64_t token;
    share shares[CIRCLET_MAX_THREADS]; /* of the caller, then of the workers */
    worker_slot workers[CIRCLET_MAX_THREADS];
};

static circlet_pool *the_pool;
static uint32_t wiped_on_fork;

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

static void run_chunk(const circlet_pool *pool, uint32_t chunk, uint32_t thread) {
    const bound_step *step = pool->step;
    uint32_t front = step->remainder - step->remainder / 2;
    uint32_t back = step->chunks - step->remainder / 2;
    uint32_t extra = (chunk < front ? chunk : front) + (chunk > back ? chunk - back : 0);
    int64_t begin = chunk * step->quotient + extra;
    int64_t end = begin + step->quotient + (chunk < front || chunk >= back);
    char *scratch = pool->scratch.base + thread * pool->scratch.stride;
    uint64_t *busy_ns = pool->busy_ns, start = busy_ns ? sys_now_ns() : 0;
    run_tasks(step, scratch, begin, end, pool->watch);
    if (busy_ns)
        busy_ns[thread] += sys_now_ns() - start;
}

/* Claims chunks of a share one by one and runs them; returns how many. Only after the claim may the
 * step be looked at: until a claimed chunk is done the caller waits, and changes nothing. A ticket
 * that was seen in an earlier step and is there again stands for the same chunks of this one, which
 * the claim acquires: that the word was changed between (ABA) does no harm. */
static uint32_t run_share(circlet_pool *pool, uint32_t owner, uint32_t thread) {
    ticket *open = &pool->shares[owner].open;
    ticket seen = __atomic_load_n(open, __ATOMIC_ACQUIRE);
    uint32_t count = 0;
    for (;;) {
        uint32_t begin = ticket_begin(seen), end = ticket_end(seen);
        if (begin >= end || thread >= ticket_threads(seen))
            return count;
        ticket next = thread == owner ? seen + 1 : seen - ((ticket)1 << 16);
        if (!__atomic_compare_exchange_n(open, &seen, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        run_chunk(pool, thread == owner ? begin : end - 1, thread);
        count++;
        seen = __atomic_load_n(open, __ATOMIC_ACQUIRE);
    }
}

static void report_done(circlet_pool *pool, uint32_t chunks) {
    if (chunks)
        __atomic_fetch_add(&pool->done, chunks, __ATOMIC_RELEASE);
}

/* A worker's part in a step. It reports its own share before it looks at others: the caller may be
 * waiting for that alone. */
static void run_as_worker(circlet_pool *pool, uint32_t thread) {
    report_done(pool, run_share(pool, thread, thread));
    ticket own = __atomic_load_n(&pool->shares[thread].open, __ATOMIC_RELAXED);
    uint32_t threads = ticket_threads(own);
    for (uint32_t next = 1; next < threads; next++)
        report_done(pool, run_share(pool, (thread + next) % threads, thread));
}

static uint32_t has_work(circlet_pool *pool, uint32_t thread) {
    ticket seen = __atomic_load_n(&pool->shares[thread].open, __ATOMIC_SEQ_CST);
    return ticket_begin(seen) < ticket_end(seen) && thread < ticket_threads(seen);
}

/* Sleeps until there is work, whatever else ends a wait. The first look comes after `parked` is
 * raised, see the top. */
static void park(circlet_pool *pool, worker_slot *slot) {
    __atomic_store_n(&slot->parked, 1, __ATOMIC_SEQ_CST);
    while (!has_work(pool, slot->index) && __atomic_load_n(&slot->parked, __ATOMIC_ACQUIRE))
        sys_wait(&slot->parked, 1);
    __atomic_store_n(&slot->parked, 0, __ATOMIC_RELAXED);
}

/* A worker that waits on the caller's core only takes time from it. It would stay: the system
 * finds a place for threads that wake, but leaves those that never sleep where they are. */
static void leave_caller(const circlet_pool *pool) {
    uint32_t core = __atomic_load_n(&pool->core, __ATOMIC_RELAXED);
    if ((uint32_t)sched_getcpu() == core)
        sys_leave_core(core);
}

/* Returns when there is something to claim, or when the bounded spin is over. */
static uint32_t await_work(circlet_pool *pool, uint32_t thread) {
    uint64_t deadline = sys_now_ns() + SPIN_NS;
    uint32_t spins = 0;
    while (!has_work(pool, thread)) {
        spin(&spins);
        if (spins % 64 != 0)
            continue;
        leave_caller(pool);
        if (sys_now_ns() > deadline)
            return 0;
    }
    return 1;
}

static void *worker_main(void *argument) {
    worker_slot *slot = argument;
    circlet_pool *pool = slot->pool;
    sys_name_thread("circlet-worker");
    cpu_set_float_state(CPU_FLOAT_DEFAULT);
    for (;;) {
        run_as_worker(pool, slot->index);
        if (!await_work(pool, slot->index))
            park(pool, slot);
    }
    return NULL;
}

/* Signals are masked while the thread is made, which inherits the mask: handlers of the process do
 * not run on workers. */
static uint32_t start_worker(circlet_pool *pool) {
    worker_slot *slot = &pool->workers[pool->worker_count];
    slot->index = pool->worker_count + 1;
    slot->pool = pool;
    unsigned long thread = 0;
    uint64_t mask = sys_signal_mask(~(uint64_t)0);
    int failed = pthread_create(&thread, NULL, worker_main, slot);
    sys_signal_mask(mask);
    if (failed)
        return 0;
    pthread_detach(thread);
    __atomic_store_n(&pool->worker_count, slot->index, __ATOMIC_RELAXED);
    return 1;
}

/* Starts afresh in a child whose kernel did not clear the pages. */
static void notice_fork(circlet_pool *pool) {
    if (wiped_on_fork || pool->process == sys_process())
        return;
    char *bytes = (char *)pool;
    for (size_t i = 0; i < sizeof *pool; i++)
        ((volatile char *)bytes)[i] = 0;
    pool->process = sys_process();
}

/* Several threads may make a pool at the same time; one wins, and the others free theirs. */
circlet_pool *pool_of_process(void) {
    circlet_pool *pool = __atomic_load_n(&the_pool, __ATOMIC_ACQUIRE);
    if (pool) {
        notice_fork(pool);
        return pool;
    }
    circlet_pool *made = sys_allocate(sizeof *made);
    if (!made)
        return NULL;
    if (sys_wipe_on_fork(made, sizeof *made) == 0)
        wiped_on_fork = 1;
    else
        made->process = sys_process();
    if (__atomic_compare_exchange_n(&the_pool, &pool, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    sys_free(made, sizeof *made);
    return pool;
}

/* Process ids come again, so the time is part of it; bit 0 is left for bindings to use. */
uint64_t pool_process_token(circlet_pool *pool) {
    uint64_t token = __atomic_load_n(&pool->token, __ATOMIC_RELAXED);
    if (token)
        return token;
    uint64_t made = ((uint64_t)sys_process() << 40 ^ sys_now_ns()) << 1 | 2;
    if (__atomic_compare_exchange_n(&pool->token, &token, made, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        return made;
    return token;
}

uint32_t pool_acquire(circlet_pool *pool, uint32_t threads) {
    if (threads <= 1 || __atomic_exchange_n(&pool->taken, 1, __ATOMIC_ACQUIRE))
        return 1;
    while (pool->worker_count + 1 < threads && start_worker(pool)) {
    }
    uint32_t most = pool->worker_count + 1, core = (uint32_t)sched_getcpu();
    if (pool->core != core)
        __atomic_store_n(&pool->core, core, __ATOMIC_RELAXED);
    if (most > 1)
        return threads < most ? threads : most;
    pool_release(pool);
    return 1;
}

void pool_release(circlet_pool *pool) { __atomic_store_n(&pool->taken, 0, __ATOMIC_RELEASE); }

static void wake_workers(circlet_pool *pool, uint32_t threads) {
    for (uint32_t i = 0; i + 1 < threads; i++) {
        uint32_t *parked = &pool->workers[i].parked;
        if (!__atomic_load_n(parked, __ATOMIC_SEQ_CST))
            continue;
        __atomic_store_n(parked, 0, __ATOMIC_SEQ_CST);
        sys_wake(parked);
    }
}

/* Offers the chunks of a step in shares. The caller has the first chunk already. */
static void offer(circlet_pool *pool, uint32_t chunks, uint32_t threads) {
    uint32_t size = (chunks + threads - 1) / threads;
    for (uint32_t i = 0, begin = 0; i < threads; i++) {
        uint32_t end = begin + size < chunks ? begin + size : chunks;
        ticket t = make_ticket(threads, end, i ? begin : 1);
        __atomic_store_n(&pool->shares[i].open, t, __ATOMIC_RELEASE);
        begin = end;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* workers that park look at their share once more */
}

/* The caller works through its own share and then all others, and waits only for chunks that
 * workers have claimed. `expected` counts modulo 2^32, as `done` does, and is never set back: a
 * worker that is late to report would be counted in the wrong step. */
void pool_run_step(circlet_pool *pool, const bound_step *step, scratch_area scratch,
                   uint32_t threads, watch *watch, uint64_t *busy_ns) {
    pool->step = step;
    pool->busy_ns = busy_ns;
    pool->scratch = scratch;
    pool->watch = watch;
    offer(pool, step->chunks, threads);
    wake_workers(pool, threads);
    run_chunk(pool, 0, 0);
    uint32_t expected = pool->expected + step->chunks - 1, spins = 0;
    for (uint32_t owner = 0; owner < threads; owner++)
        expected -= run_share(pool, owner, 0);
    while (__atomic_load_n(&pool->done, __ATOMIC_ACQUIRE) != expected) {
        spin(&spins);
        if (spins % SPINS_PER_LOOK == 0)
            watch_look(watch);
    }
    pool->expected = expected;
}

CIRCLET_EXPORT uint32_t circlet_pool_workers(void) {
    circlet_pool *pool = pool_of_process();
    return pool ? __atomic_load_n(&pool->worker_count, __ATOMIC_RELAXED) : 0;
}

CIRCLET_EXPORT uint32_t circlet_usable_cores(void) { return sys_core_count(); }
