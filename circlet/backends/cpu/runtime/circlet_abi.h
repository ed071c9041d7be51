/* What compiled units, the runtime library and the compiler (abi.py) agree on.
 *
 * A unit is a freestanding shared object of kernels. A plan is a constant block of bytes in the
 * artifact: a header, then steps, operands and kernel parameters. The runtime binds a plan to an
 * arena and to the caller's buffers and runs its steps in order, each spread over threads. What
 * the first steps make of constants alone lies in memory that all bindings share.
 * All numbers are in the byte order of the target. Everything here is read-only at run time.
 */
#ifndef CIRCLET_ABI_H
#define CIRCLET_ABI_H

#include <stdint.h>

#define CIRCLET_ABI_VERSION 7u
#define CIRCLET_PLAN_MAGIC 0x504C5243u /* "CRLP" */

/* One kernel does the tasks begin <= task < end of a step. `params` is the kernel family's own
 * parameter struct, `operands` the resolved addresses in the order of the lowering, `scratch`
 * memory of the calling thread, 64-byte aligned, undefined on entry. */
typedef void (*circlet_kernel)(const void *params, void *const *operands, void *scratch,
                               int64_t begin, int64_t end);

/* What kernels of long tasks ask, every few million operations, whether the run is to end. They
 * then return at once, whatever their results are. Kernels whose operands hold what the operator
 * does not allow refuse them, which ends the run in CIRCLET_BAD_OPERAND; those of loops that go on
 * where there is no more room end it in CIRCLET_OUTGROWN. */
typedef struct circlet_stop {
    uint32_t (*is_due)(struct circlet_stop *stop);
    void (*refuse)(struct circlet_stop *stop);
    void (*outgrow)(struct circlet_stop *stop);
} circlet_stop;

/* What a unit asks of the system before its first call. */
#define CIRCLET_NEEDS_TILES 1u /* AMX tiles, which Linux grants to a process that asks */
#if defined(__AMX_TILE__)
#define CIRCLET_UNIT_NEEDS CIRCLET_NEEDS_TILES
#else
#define CIRCLET_UNIT_NEEDS 0u
#endif

/* Every unit exports one of these under the name `circlet_unit_table`. */
typedef struct circlet_unit {
    uint32_t abi_version;
    uint32_t kernel_count;
    const circlet_kernel *kernels;
    uint32_t needs; /* CIRCLET_UNIT_NEEDS as its compiler saw it */
} circlet_unit;

enum circlet_space {
    CIRCLET_NONE = 0,     /* a null pointer: an omitted operand */
    CIRCLET_ARENA = 1,    /* offset into the arena */
    CIRCLET_CONSTANT = 2, /* offset into the packed constants */
    CIRCLET_INPUT = 3,    /* offset into the caller's input buffer `index` */
    CIRCLET_OUTPUT = 4,   /* offset into the caller's output buffer `index` */
    CIRCLET_PARAMS = 5,   /* offset into the plan's parameter block: constants of this plan alone */
    CIRCLET_KERNEL = 6,   /* the circlet_kernel number `offset` of unit `index` */
    CIRCLET_STOP = 7,     /* the circlet_stop of the run */
    CIRCLET_RESIDENT = 8  /* offset into what the executable keeps from run to run */
};

typedef struct circlet_operand {
    uint32_t space;
    uint32_t index;
    int64_t offset;
} circlet_operand;

/* A step whose `unit` is CIRCLET_CONTROL runs no kernel: it says which step comes next. `kernel`
 * is a circlet_control, `tasks` the number of the step to go on with. */
#define CIRCLET_CONTROL 0xFFFFFFFFu

enum circlet_control {
    CIRCLET_JUMP = 0,       /* always */
    CIRCLET_JUMP_UNLESS = 1 /* if the byte that operand 0 points to is 0 */
};

typedef struct circlet_step {
    uint32_t unit;
    uint32_t kernel;
    uint32_t first_operand;
    uint32_t operand_count;
    uint64_t params_offset; /* from the start of the parameter block, a multiple of 16 */
    int64_t tasks;
    uint32_t source; /* index into the artifact's table of source operators */
    uint32_t work; /* of all tasks, in units of CIRCLET_WORK_UNIT operations */
} circlet_step;

/* Operations are counted as records of operators count them; the largest number stands for more. */
#define CIRCLET_WORK_UNIT 1024u

/* Followed by steps[step_count], operands[operand_count], then params_bytes of parameters at
 * params_offset (64-byte aligned, from the start of the header). */
typedef struct circlet_plan {
    uint32_t magic;
    uint32_t abi_version;
    uint32_t step_count;
    uint32_t operand_count;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t unit_count;
    uint32_t most_turns; /* jumps backwards that one run may do */
    uint64_t params_offset;
    uint64_t params_bytes;
    uint64_t arena_bytes;
    uint64_t scratch_bytes; /* per thread */
    uint64_t constants_bytes;
    uint64_t most_work; /* that one run may do, in the units of steps */
    uint64_t resident_bytes;
    uint64_t once_steps; /* the first so many: they depend on no run, and run before the first */
} circlet_plan;

enum circlet_status {
    CIRCLET_OK = 0,
    CIRCLET_BAD_PLAN = 1,
    CIRCLET_NO_MEMORY = 2,
    CIRCLET_TIMEOUT = 3,
    CIRCLET_CANCELLED = 4,
    CIRCLET_BUSY = 5,    /* another thread runs this binding */
    CIRCLET_BAD_PORT = 6, /* no such input or output, or one that has no buffer yet */
    CIRCLET_TOO_MANY_TURNS = 7, /* a loop did not end within most_turns */
    CIRCLET_NO_TILES = 8,       /* the system does not grant AMX tiles */
    CIRCLET_INTERRUPTED = 9,    /* what circlet_ask_interrupt was given said so */
    CIRCLET_TOO_MUCH_WORK = 10, /* loops made the steps do more than most_work */
    CIRCLET_BAD_OPERAND = 11,   /* circlet_binding_refused_step tells which step refused one */
    CIRCLET_OUTGROWN = 12       /* a loop takes more turns than the plan has room for */
};

#endif
