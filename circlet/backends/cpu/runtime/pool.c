#include "pool.h"

#include "sys.h"

#define MOST_TEAMS 16u

/* Lies in pages that the kernel clears in a forked child: all zero is a pool without workers. */
struct circlet_pool {
    uint64_t token;
    uint32_t process; /* set where the kernel cannot clear pages on fork */
    _Alignas(CACHE_LINE) uint32_t runs; /* in progress that want more than one thread */
    thread_team teams[MOST_TEAMS];
};

static circlet_pool *the_pool;
static uint32_t wiped_on_fork;

static void *worker_main(void *argument) {
    worker *worker = argument;
    __atomic_store_n(&worker->thread, sys_thread(), __ATOMIC_RELAXED);
    sys_name_thread("circlet-worker");
    cpu_set_float_state(CPU_FLOAT_DEFAULT);
    team_serve(worker);
    return NULL;
}

/* Signals are masked while the thread is made, which inherits the mask: handlers of the process do
 * not run on workers. */
static uint32_t start_worker(thread_team *team) {
    worker *made = &team->workers[team->worker_count];
    made->index = team->worker_count + 1;
    made->team = team;
    unsigned long thread = 0;
    uint64_t mask = sys_signal_mask(~(uint64_t)0);
    int failed = pthread_create(&thread, NULL, worker_main, made);
    sys_signal_mask(mask);
    if (failed)
        return 0;
    pthread_detach(thread);
    __atomic_store_n(&team->worker_count, made->index, __ATOMIC_RELAXED);
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

/* The one that the binding had last, whose cores may still hold its data, or the next free one. */
static thread_team *take_team(circlet_pool *pool, uint32_t *place) {
    for (uint32_t i = 0; i < MOST_TEAMS; i++) {
        uint32_t number = (*place + i) % MOST_TEAMS;
        thread_team *team = &pool->teams[number];
        if (__atomic_exchange_n(&team->taken, 1, __ATOMIC_ACQUIRE))
            continue;
        *place = number;
        return team;
    }
    return NULL;
}

static void give_back(thread_team *team) { __atomic_store_n(&team->taken, 0, __ATOMIC_RELEASE); }

/* Makes missing workers, as far as the system lets it; how many threads the team then has. */
static uint32_t man_team(thread_team *team, uint32_t threads) {
    while (team->worker_count + 1 < threads && start_worker(team)) {
    }
    uint32_t most = team->worker_count + 1, core = (uint32_t)sched_getcpu();
    if (team->core != core)
        __atomic_store_n(&team->core, core, __ATOMIC_RELAXED);
    team->late_ns = 0;
    return threads < most ? threads : most;
}

thread_team *pool_begin_run(circlet_pool *pool, uint32_t *threads, uint32_t *place) {
    uint32_t runs = __atomic_add_fetch(&pool->runs, 1, __ATOMIC_RELAXED), wanted = *threads;
    if (runs > 1) {
        uint32_t part = sys_core_count() / runs;
        wanted = wanted < part ? wanted : part;
    }
    thread_team *team = wanted > 1 ? take_team(pool, place) : NULL;
    *threads = team ? man_team(team, wanted) : 1;
    if (!team || *threads > 1)
        return team;
    give_back(team);
    return NULL;
}

void pool_end_run(circlet_pool *pool, thread_team *team) {
    __atomic_fetch_sub(&pool->runs, 1, __ATOMIC_RELAXED);
    if (team)
        give_back(team);
}

CIRCLET_EXPORT uint32_t circlet_pool_workers(void) {
    circlet_pool *pool = pool_of_process();
    uint32_t count = 0;
    for (uint32_t i = 0; pool && i < MOST_TEAMS; i++)
        count += __atomic_load_n(&pool->teams[i].worker_count, __ATOMIC_RELAXED);
    return count;
}

CIRCLET_EXPORT uint32_t circlet_usable_cores(void) { return sys_core_count(); }
