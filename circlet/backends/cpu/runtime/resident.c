/* The state is 0 at first, then the token of the process of which a thread makes what is resident,
 * then RESIDENT_IS_MADE. A token of another process is void: a fork did not copy that thread. */
#include "resident.h"

#include "sys.h"

#define RESIDENT_IS_MADE 1u /* odd, as no token is */
#define LOOK_NS 200000u     /* between two looks whether another thread has made it */

/* An observer of the steps that make it cannot run what waits for them. */
static uint32_t wait_for_maker(circlet_executable *executable, watch *watch) {
    uint32_t never = 0;
    if (__atomic_load_n(&executable->maker, __ATOMIC_RELAXED) == sys_thread())
        return CIRCLET_BUSY;
    sys_wait_for(&never, 0, LOOK_NS);
    return watch_look(watch);
}

uint32_t resident_begin(circlet_executable *executable, uint64_t token, watch *watch,
                        uint32_t *is_maker) {
    uint32_t status = CIRCLET_OK;
    while (status == CIRCLET_OK) {
        uint64_t seen = __atomic_load_n(&executable->resident_state, __ATOMIC_ACQUIRE);
        if (seen == RESIDENT_IS_MADE)
            break;
        if (seen == token) {
            status = wait_for_maker(executable, watch);
            continue;
        }
        *is_maker = __atomic_compare_exchange_n(&executable->resident_state, &seen, token, 0,
                                                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
        if (!*is_maker)
            continue;
        __atomic_store_n(&executable->maker, sys_thread(), __ATOMIC_RELAXED);
        break;
    }
    return status;
}

void resident_end(circlet_executable *executable, uint32_t status) {
    __atomic_store_n(&executable->maker, 0, __ATOMIC_RELAXED);
    uint64_t state = status == CIRCLET_OK ? RESIDENT_IS_MADE : 0;
    __atomic_store_n(&executable->resident_state, state, __ATOMIC_RELEASE);
}
