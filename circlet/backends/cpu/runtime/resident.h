/* What an executable keeps from run to run: one thread makes it, before the first run. */
#ifndef CIRCLET_RESIDENT_H
#define CIRCLET_RESIDENT_H

#include "executable.h"
#include "watch.h"

/* Waits until what is resident is made, or until this thread is to make it, which `is_maker` says:
 * resident_end is then to follow. Otherwise returns why the run is to end, if it is. `token` stands
 * for the process, as pool.h has it. */
uint32_t resident_begin(circlet_executable *executable, uint64_t token, watch *watch,
                        uint32_t *is_maker);

/* Says how making it ended; where that was not CIRCLET_OK the next run makes it anew. */
void resident_end(circlet_executable *executable, uint32_t status);

#endif
