/* Looks at what may end a run. */
#include "watch.h"

#include "sys.h"

#define ASK_NS 100000000u /* between two questions to the caller's interrupt, which may be slow */

static circlet_interrupt *the_interrupt;

CIRCLET_EXPORT void circlet_ask_interrupt(circlet_interrupt *interrupt) {
    __atomic_store_n(&the_interrupt, interrupt, __ATOMIC_RELEASE);
}

/* The first look only starts the clock: most runs end before they would ask. */
static uint32_t is_interrupted(watch *watch, circlet_interrupt *interrupt, uint64_t now) {
    if (sys_thread() != sys_process())
        return 0;
    uint64_t next = watch->next_ask_ns;
    if (next && now < next)
        return 0;
    watch->next_ask_ns = now + ASK_NS;
    return next && interrupt();
}

static uint32_t reason(watch *watch) {
    if (__atomic_load_n(watch->state, __ATOMIC_RELAXED) & CANCELLED_BIT)
        return CIRCLET_CANCELLED;
    circlet_interrupt *interrupt = __atomic_load_n(&the_interrupt, __ATOMIC_ACQUIRE);
    if (!interrupt && !watch->deadline_ns)
        return CIRCLET_OK;
    uint64_t now = sys_now_ns();
    if (watch->deadline_ns && now >= watch->deadline_ns)
        return CIRCLET_TIMEOUT;
    return interrupt && is_interrupted(watch, interrupt, now) ? CIRCLET_INTERRUPTED : CIRCLET_OK;
}

/* The first reason counts, but for an interrupt, which waits to be told. */
uint32_t watch_look(watch *watch) {
    uint32_t status = __atomic_load_n(&watch->status, __ATOMIC_RELAXED);
    if (status != CIRCLET_OK)
        return status;
    uint32_t found = reason(watch);
    if (found == CIRCLET_INTERRUPTED)
        __atomic_store_n(&watch->status, found, __ATOMIC_RELAXED);
    else if (found != CIRCLET_OK)
        __atomic_compare_exchange_n(&watch->status, &status, found, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    return found;
}

static uint32_t stop_is_due(circlet_stop *stop) { return watch_look((watch *)stop) != CIRCLET_OK; }

/* Whether a status is the first reason for a run to end. */
static uint32_t ends_first(watch *watch, uint32_t status) {
    uint32_t none = CIRCLET_OK;
    return __atomic_compare_exchange_n(&watch->status, &none, status, 0, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

static void stop_refuse(circlet_stop *stop) {
    watch *this = (watch *)stop;
    if (ends_first(this, CIRCLET_BAD_OPERAND))
        this->refused_step = this->step;
}

static void stop_outgrow(circlet_stop *stop) { ends_first((watch *)stop, CIRCLET_OUTGROWN); }

void watch_init(watch *watch) {
    watch->stop.is_due = stop_is_due;
    watch->stop.refuse = stop_refuse;
    watch->stop.outgrow = stop_outgrow;
}
