/* Runs one network with LiteRT's compiled model: litert LIBRARY MODEL FOLDER RUNS NAME..
 *
 * FOLDER holds input0.bin .., one for each NAME of an input, and takes output0.bin .. in the order
 * of the network's signature. It runs on one thread, with LiteRT's default delegate. What is used
 * of its C interface is declared here: the Python package brings the library alone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "mark.h"

enum { MOST = 64, CPU = 1, READ = 0, WRITE = 1, DIMENSIONS = 8 };

typedef void *handle;
typedef struct {
    uint32_t rank_and_strides; /* the rank in the low seven bits */
    int32_t sizes[DIMENSIONS];
    uint32_t strides[DIMENSIONS];
} tensor_layout;
typedef struct {
    int32_t element_type;
    tensor_layout layout;
} tensor_type;

static void *library;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(2);
}

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name, "is not in LiteRT's library");
    return found;
}

/* Calls a function of the library; any other status than 0 ends the program. */
#define LITERT(name, parameters, ...)                                                              \
    do {                                                                                           \
        int (*function) parameters = (int (*) parameters)symbol(#name);                            \
        int status = function(__VA_ARGS__);                                                        \
        if (status) fail(#name, "failed");                                                         \
    } while (0)

static handle options_for_one_thread(void) {
    handle options, cpu;
    LITERT(LiteRtCreateOptions, (handle *), &options);
    LITERT(LiteRtSetOptionsHardwareAccelerators, (handle, int), options, CPU);
    LITERT(LiteRtCreateOpaqueOptions, (const char *, void *, void (*)(void *), handle *), "xnnpack",
           strdup("num_threads = 1\n"), free, &cpu);
    LITERT(LiteRtAddOpaqueOptions, (handle, handle), options, cpu);
    return options;
}

static void transfer(const char *pattern, int number, handle buffer, int is_read) {
    char name[64];
    size_t bytes;
    void *data;
    snprintf(name, sizeof name, pattern, number);
    LITERT(LiteRtGetTensorBufferPackedSize, (handle, size_t *), buffer, &bytes);
    LITERT(LiteRtLockTensorBuffer, (handle, void **, int), buffer, &data, is_read ? READ : WRITE);
    FILE *file = fopen(name, is_read ? "wb" : "rb");
    size_t done = file ? is_read ? fwrite(data, 1, bytes, file) : fread(data, 1, bytes, file) : 0;
    if (done != bytes || fclose(file) != 0) fail(name, "has another size than LiteRT's tensor");
    LITERT(LiteRtUnlockTensorBuffer, (handle), buffer);
}

static int position_of(const char *name, int count, char **names, int otherwise) {
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return i;
    return otherwise;
}

/* The type and the name of an input or an output of the signature. */
static tensor_type type_of(handle signature, int is_output, size_t index, const char **name) {
    handle tensor;
    tensor_type type;
    if (is_output)
        LITERT(LiteRtGetSignatureOutputTensorByIndex, (handle, size_t, handle *), signature, index,
               &tensor);
    else
        LITERT(LiteRtGetSignatureInputTensorByIndex, (handle, size_t, handle *), signature, index,
               &tensor);
    LITERT(LiteRtGetRankedTensorType, (handle, tensor_type *), tensor, &type);
    LITERT(LiteRtGetTensorName, (handle, const char **), tensor, name);
    return type;
}

/* Sizes that the file leaves open become 1. */
static void settle(handle model, size_t index, tensor_layout *layout) {
    size_t rank = layout->rank_and_strides & 127;
    int is_open = 0;
    for (size_t i = 0; i < rank; i++)
        if (layout->sizes[i] < 0) layout->sizes[i] = 1, is_open = 1;
    if (is_open)
        LITERT(LiteRtCompiledModelResizeInputTensor, (handle, size_t, size_t, const int32_t *, size_t),
               model, 0, index, layout->sizes, rank);
}

static size_t make_inputs(handle environment, handle model, handle signature, handle *buffers,
                          int count, char **names) {
    size_t number;
    LITERT(LiteRtGetNumSignatureInputs, (handle, size_t *), signature, &number);
    if (number > MOST) fail("inputs", "are too many");
    for (size_t i = 0; i < number; i++) {
        handle wanted;
        const char *name;
        tensor_type type = type_of(signature, 0, i, &name);
        settle(model, i, &type.layout);
        LITERT(LiteRtGetCompiledModelInputBufferRequirements, (handle, size_t, size_t, handle *),
               model, 0, i, &wanted);
        LITERT(LiteRtCreateManagedTensorBufferFromRequirements,
               (handle, const tensor_type *, handle, handle *), environment, &type, wanted,
               &buffers[i]);
        transfer("input%d.bin", position_of(name, count, names, (int)i), buffers[i], 0);
    }
    return number;
}

/* Prints the outputs' names. */
static size_t make_outputs(handle environment, handle model, handle signature, handle *buffers) {
    size_t number;
    tensor_layout layouts[MOST];
    LITERT(LiteRtGetNumSignatureOutputs, (handle, size_t *), signature, &number);
    if (number > MOST) fail("outputs", "are too many");
    LITERT(LiteRtGetCompiledModelOutputTensorLayouts,
           (handle, size_t, size_t, tensor_layout *, _Bool), model, 0, number, layouts, 1);
    for (size_t i = 0; i < number; i++) {
        handle wanted;
        const char *name;
        tensor_type type = type_of(signature, 1, i, &name);
        type.layout = layouts[i];
        LITERT(LiteRtGetCompiledModelOutputBufferRequirements, (handle, size_t, size_t, handle *),
               model, 0, i, &wanted);
        LITERT(LiteRtCreateManagedTensorBufferFromRequirements,
               (handle, const tensor_type *, handle, handle *), environment, &type, wanted,
               &buffers[i]);
        printf("%s\n", name);
    }
    return number;
}

int main(int count, char **arguments) {
    if (count < 5 || !(library = dlopen(arguments[1], RTLD_NOW))) fail("litert", dlerror());
    handle environment, file, model, signature, inputs[MOST], outputs[MOST];
    LITERT(LiteRtCreateEnvironment, (int, const void *, handle *), 0, NULL, &environment);
    LITERT(LiteRtCreateModelFromFile, (handle, const char *, handle *), environment, arguments[2],
           &file);
    LITERT(LiteRtGetModelSignature, (handle, size_t, handle *), file, 0, &signature);
    LITERT(LiteRtCreateCompiledModel, (handle, handle, handle, handle *), environment, file,
           options_for_one_thread(), &model);
    if (chdir(arguments[3]) != 0) fail(arguments[3], "cannot be entered");
    size_t sources = make_inputs(environment, model, signature, inputs, count - 5, arguments + 5);
    size_t targets = make_outputs(environment, model, signature, outputs);
    for (int run = 0; run < atoi(arguments[4]); run++) {
        syscall(SYS_getppid, MARK);
        LITERT(LiteRtRunCompiledModel, (handle, size_t, size_t, handle *, size_t, handle *), model,
               0, sources, inputs, targets, outputs);
    }
    syscall(SYS_getppid, MARK);
    for (size_t i = 0; i < targets; i++) transfer("output%d.bin", (int)i, outputs[i], 1);
    return 0;
}
