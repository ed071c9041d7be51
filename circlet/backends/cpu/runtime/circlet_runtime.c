/* The whole runtime library as one translation unit. */
#include "binding.c"
#include "executable.c"
#include "pool.c"
#include "resident.c"
#include "schedule.c"
#include "support.h"
#include "team.c"
#include "watch.c"
