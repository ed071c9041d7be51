/* A plugin of qemu's user mode: what one thread executes between the marks of `mark.h`.
 *
 * Every mark appends a line to the file of the argument `to`: instructions executed, bytes loaded,
 * and bytes stored since the program started. With `blocks` a last line for every block of
 * instructions follows: its address, its instructions, and how often it was executed between the
 * first mark and the last. What qemu's plugin interface is called and how it is laid out is
 * declared here, as far as it is used: distributions do not package its header. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1
#endif
#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

typedef void translated(plugin_id, struct qemu_plugin_tb *);
typedef void executed(unsigned, void *);
typedef void accessed(unsigned, uint32_t, uint64_t, void *);
typedef void called(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                    uint64_t, uint64_t, uint64_t);
typedef void ended(plugin_id, void *);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed *, int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed *, int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, called *);
void qemu_plugin_register_atexit_cb(plugin_id, ended *, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
unsigned qemu_plugin_mem_size_shift(uint32_t);
bool qemu_plugin_mem_is_store(uint32_t);

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

typedef struct block {
    uint64_t address, instructions, runs, runs_at_first_mark, runs_at_last_mark;
    struct block *next;
} block;

static FILE *report;
static block *blocks;
static bool is_every_block_told;
static uint64_t marks, loaded, stored;

static void execute(unsigned cpu, void *data) {
    (void)cpu;
    ((block *)data)->runs++;
}

static void access(unsigned cpu, uint32_t what, uint64_t address, void *data) {
    (void)cpu, (void)address, (void)data;
    uint64_t bytes = (uint64_t)1 << qemu_plugin_mem_size_shift(what);
    *(qemu_plugin_mem_is_store(what) ? &stored : &loaded) += bytes;
}

static void translate(plugin_id id, struct qemu_plugin_tb *tb) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    block *new = calloc(1, sizeof *new);
    if (!new) abort();
    *new = (block){.address = qemu_plugin_tb_vaddr(tb), .instructions = count, .next = blocks};
    blocks = new;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, execute, NO_REGISTERS, new);
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), access, NO_REGISTERS,
                                         READS_AND_WRITES, NULL);
}

static void call(plugin_id id, unsigned cpu, int64_t number, uint64_t first, uint64_t a2,
                 uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    (void)id, (void)cpu, (void)number;
    (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (first != MARK) return;
    uint64_t instructions = 0;
    for (block *each = blocks; each; each = each->next) {
        instructions += each->instructions * each->runs;
        each->runs_at_last_mark = each->runs;
        if (!marks) each->runs_at_first_mark = each->runs;
    }
    marks++;
    fprintf(report, "mark %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions, loaded, stored);
}

static void end(plugin_id id, void *data) {
    (void)id, (void)data;
    for (block *each = blocks; is_every_block_told && each; each = each->next) {
        uint64_t runs = each->runs_at_last_mark - each->runs_at_first_mark;
        if (runs)
            fprintf(report, "block %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", each->address,
                    each->instructions, runs);
    }
    fclose(report);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *machine, int count, char **arguments) {
    (void)machine;
    for (int i = 0; i < count; i++) {
        if (!strncmp(arguments[i], "to=", 3)) report = fopen(arguments[i] + 3, "w");
        is_every_block_told |= !strcmp(arguments[i], "blocks=on");
    }
    if (!report) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, call);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
