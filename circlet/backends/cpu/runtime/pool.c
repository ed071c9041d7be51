/* Workers claim chunks of the current step from one atomic word and nobody waits for a worker that
 * claimed none: a worker that the system does not schedule costs nothing but its share. */
#include "pool.h"

#include "sys.h"

#define CACHE_LINE 64
#define SPIN_NS 200000u /* an idle worker parks after this */
#define EAGER_SPINS 2000u /* pauses before a spinning thread starts to yield its core */

/* A ticket: 16 bits each of threads, end and begin of the chunks that nobody has claimed. The
 * caller has the first chunk from the start and takes from the begin, workers take from the end, so
 * that each core meets the same part of the buffers in every step. */
typedef uint64_t ticket;

typedef struct worker_slot {
    _Alignas(CACHE_LINE) uint32_t parked; /* futex word: 1 while the worker sleeps */
    uint32_t index;
    struct circlet_pool *pool;
} worker_slot;

/* Lies in pages that the kernel clears in a forked child: all zero is a pool without workers. */
struct circlet_pool {
    _Alignas(CACHE_LINE) ticket open;
    const bound_step *step;
    scratch_area scratch;
    uint32_t core; /* on which the caller was when it took the pool */
    _Alignas(CACHE_LINE) uint32_t done; /* chunks that workers were done with, in all steps */
    _Alignas(CACHE_LINE) uint32_t taken;
    uint32_t expected; /* `done` when the last step was over */
    uint32_t worker_count;
    uint32_t process; /* set where the kernel cannot clear pages on fork */
    uint64_t token;
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
    step->kernel(step->params, step->operands, scratch, begin, end);
}

/* Claims a chunk and runs it. Returns 0 when this thread finds nothing to claim. Only after the
 * claim may the step be looked at: until the chunk is done its owner waits for it. */
static uint32_t claim_and_run(circlet_pool *pool, uint32_t thread) {
    ticket seen = __atomic_load_n(&pool->open, __ATOMIC_ACQUIRE);
    for (;;) {
        uint32_t begin = ticket_begin(seen), end = ticket_end(seen);
        if (begin >= end || thread >= ticket_threads(seen))
            return 0;
        ticket next = thread == 0 ? seen + 1 : seen - ((ticket)1 << 16);
        if (__atomic_compare_exchange_n(&pool->open, &seen, next, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            run_chunk(pool, thread == 0 ? begin : end - 1, thread);
            return 1;
        }
    }
}

static uint32_t has_work(circlet_pool *pool, uint32_t thread) {
    ticket seen = __atomic_load_n(&pool->open, __ATOMIC_SEQ_CST);
    return ticket_begin(seen) < ticket_end(seen) && thread < ticket_threads(seen);
}

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
        uint32_t chunks = 0;
        while (claim_and_run(pool, slot->index))
            chunks++;
        if (chunks)
            __atomic_fetch_add(&pool->done, chunks, __ATOMIC_RELEASE);
        if (!await_work(pool, slot->index))
            park(pool, slot);
    }
    return NULL;
}

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

void pool_run_step(circlet_pool *pool, const bound_step *step, scratch_area scratch,
                   uint32_t threads) {
    pool->step = step;
    pool->scratch = scratch;
    __atomic_store_n(&pool->open, make_ticket(threads, step->chunks, 1), __ATOMIC_SEQ_CST);
    wake_workers(pool, threads);
    run_chunk(pool, 0, 0);
    uint32_t expected = pool->expected + step->chunks - 1, spins = 0;
    while (__atomic_load_n(&pool->done, __ATOMIC_ACQUIRE) != expected) {
        if (claim_and_run(pool, 0))
            expected--;
        else
            spin(&spins);
    }
    pool->expected = expected;
}

CIRCLET_EXPORT uint32_t circlet_pool_workers(void) {
    circlet_pool *pool = pool_of_process();
    return pool ? __atomic_load_n(&pool->worker_count, __ATOMIC_RELAXED) : 0;
}

CIRCLET_EXPORT uint32_t circlet_usable_cores(void) { return sys_core_count(); }
