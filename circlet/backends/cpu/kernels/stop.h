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

/* So many rows of a unit of work each, in whole tiles, that asking costs nothing next to them. */
CIRCLET_INLINE int64_t stop_rows(int64_t work, int64_t tile) {
    int64_t tiles = 16 * (int64_t)STOP_EVERY / (work * tile + 1);
    return (tiles ? tiles : 1) * tile;
}

CIRCLET_INLINE stop_count stop_start(void *stop) {
    stop_count made = {stop, STOP_EVERY};
    return made;
}

/* Counts so much work; whether the kernel is to return, which stays so. */
CIRCLET_INLINE int stop_after(stop_count *count, int64_t work) {
    count->left -= work;
    if (CIRCLET_LIKELY(count->left > 0) || !count->stop) return 0;
    int is_due = count->stop->is_due(count->stop) != 0;
    count->left = is_due ? 0 : STOP_EVERY;
    return is_due;
}

#endif
