/* How kernels of long tasks ask whether the run is to end. */
#ifndef CIRCLET_STOP_H
#define CIRCLET_STOP_H

#include <circlet_abi.h>

#include "simd.h"

#define STOP_EVERY (1 << 20) /* units of work between two questions, of a few operations each */

/* Work since the last question; `stop` is a circlet_stop, or null where nobody asks. */
typedef struct stop_count {
    circlet_stop *stop;
    int64_t left;
} stop_count;

CIRCLET_INLINE stop_count stop_start(void *stop) {
    stop_count made = {stop, STOP_EVERY};
    return made;
}

/* Counts so much work; whether the kernel is to return. */
CIRCLET_INLINE int stop_after(stop_count *count, int64_t work) {
    count->left -= work;
    if (count->left > 0 || !count->stop) return 0;
    count->left = STOP_EVERY;
    return count->stop->is_due(count->stop) != 0;
}

#endif
