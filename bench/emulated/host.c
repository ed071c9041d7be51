/* Runs one native partition: host FOLDER THREADS INPUTS OUTPUTS RUNS [steps]
 *
 * FOLDER holds runtime.so, unit0.so .., plan.bin, constants.bin, and the buffers of the caller,
 * input0.bin .. and output0.bin .., which are mapped: a run writes the outputs' files in place.
 * Marks (`mark.h`) stand around each run; with `steps` one follows each step of a run as well.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "circlet_runtime.h"
#include "mark.h"

enum { MOST = 256 };

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(2);
}

static void *map(const char *path, int sharing, uint64_t *bytes) {
    struct stat facts;
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &facts) != 0) fail(path, "cannot be opened");
    *bytes = (uint64_t)facts.st_size;
    if (!*bytes) return NULL;
    void *data = mmap(NULL, (size_t)*bytes, PROT_READ | PROT_WRITE, sharing, file, 0);
    if (data == MAP_FAILED) fail(path, "cannot be mapped");
    close(file);
    return data;
}

static void *symbol(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) fail(path, dlerror());
    return found;
}

static void map_ports(const char *pattern, int count, void **buffers) {
    char name[64];
    uint64_t bytes;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, pattern, i);
        buffers[i] = map(name, MAP_SHARED, &bytes);
    }
}

static void mark(void) { syscall(SYS_getppid, MARK); }

static void mark_step(void *context, uint32_t step, uint64_t ns) {
    (void)context, (void)step, (void)ns;
    mark();
}

int main(int count, char **arguments) {
    if (count < 6 || chdir(arguments[1]) != 0) fail("host", "FOLDER THREADS INPUTS OUTPUTS RUNS");
    int threads = atoi(arguments[2]), inputs = atoi(arguments[3]), outputs = atoi(arguments[4]);
    int runs = atoi(arguments[5]);
    __typeof__(circlet_executable_create) *create =
        symbol("./runtime.so", "circlet_executable_create");
    __typeof__(circlet_binding_create) *bind = symbol("./runtime.so", "circlet_binding_create");
    __typeof__(circlet_run) *run = symbol("./runtime.so", "circlet_run");

    const circlet_unit *units[MOST];
    uint32_t unit_count = 0;
    char name[64] = "./unit0.so";
    while (unit_count < MOST && access(name, R_OK) == 0) {
        units[unit_count++] = symbol(name, "circlet_unit_table");
        snprintf(name, sizeof name, "./unit%u.so", unit_count);
    }
    void *input_buffers[MOST], *output_buffers[MOST];
    if (inputs > MOST || outputs > MOST) fail("host", "too many buffers");
    map_ports("input%d.bin", inputs, input_buffers);
    map_ports("output%d.bin", outputs, output_buffers);

    uint64_t plan_bytes, constants_bytes;
    void *plan = map("plan.bin", MAP_PRIVATE, &plan_bytes);
    void *constants = map("constants.bin", MAP_PRIVATE, &constants_bytes);
    circlet_executable *executable;
    circlet_binding *binding;
    uint32_t status = create(plan, plan_bytes, constants, constants_bytes, units, unit_count,
                             &executable);
    if (!status) status = bind(executable, input_buffers, output_buffers, threads, &binding);
    if (!status && count > 6) {
        __typeof__(circlet_binding_observe) *observe =
            symbol("./runtime.so", "circlet_binding_observe");
        status = observe(binding, mark_step, NULL);
    }
    for (int i = 0; !status && i < runs; i++) {
        mark();
        status = run(binding, 0);
    }
    mark();
    return status ? 100 + (int)status : 0;
}
