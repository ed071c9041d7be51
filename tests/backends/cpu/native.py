"""Small units and plans that the tests of the runtime share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.abi import Operand, PlanBuilder, Space
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.loader import Runtime, load_runtime
from circlet.backends.cpu.toolchain import RUNTIME_DIR, compile_unit
from circlet.target.targets import native_target

ADD, COUNT, SLOW, FLOAT_STATE, SCRATCH, PLACE, NAP = range(7)

UNIT = r"""
#include "circlet_abi.h"
#define KERNEL(name) static void name(const void *params, void *const *operands, void *scratch, \
                                      int64_t begin, int64_t end)
KERNEL(add) {
    const int32_t *amount = params;
    const int32_t *from = operands[0];
    int32_t *to = operands[1];
    for (int64_t i = begin; i < end; i++) to[i] = from[i] + *amount;
}
KERNEL(count) {
    int32_t *to = operands[0];
    for (int64_t i = begin; i < end; i++) __atomic_fetch_add(&to[i], 1, __ATOMIC_RELAXED);
}
KERNEL(slow) {
    volatile int32_t *to = operands[0];
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < 1000000; k++) to[i] = to[i] + 1;
}
KERNEL(float_state) {
    volatile float tiny = 1e-38f;
    float *to = operands[0];
    for (int64_t i = begin; i < end; i++) to[i] = tiny / 16.0f;
}
KERNEL(use_scratch) {
    volatile int64_t *mine = scratch;
    int64_t *to = operands[0];
    for (int64_t i = begin; i < end; i++) {
        for (int64_t k = 0; k < 64; k++) mine[k] = i;
        for (int64_t k = 0; k < 64; k++) to[i] += mine[k] == i;
    }
}
KERNEL(tell_place) {
    int64_t *to = operands[0];
    for (int64_t i = begin; i < end; i++) to[i] = (int64_t)scratch;
}
extern int usleep(unsigned us);
KERNEL(nap) {
    int32_t *to = operands[0];
    for (int64_t i = begin; i < end; i++) {
        usleep(2000);
        __atomic_fetch_add(&to[i], 1, __ATOMIC_RELAXED);
    }
}
static const circlet_kernel kernels[] = {add,         count,      slow, float_state,
                                         use_scratch, tell_place, nap};
__attribute__((visibility("default"))) const circlet_unit circlet_unit_table = {
    CIRCLET_ABI_VERSION, 7, kernels, CIRCLET_UNIT_NEEDS};
"""

Ints = npt.NDArray[np.int32]
WORK = 4 << 20  # of a step: enough for chunks of all threads, too little to look whether to end


@lru_cache(maxsize=1)
def runtime_image() -> bytes:
    return compile_unit((RUNTIME_DIR / "circlet_runtime.c").read_text(), native_target())


@lru_cache(maxsize=1)
def unit_image() -> bytes:
    return compile_unit(UNIT, native_target())


def runtime() -> Runtime:
    return load_runtime(runtime_image())


def finish(
    builder: PlanBuilder,
    *,
    inputs: int = 1,
    outputs: int = 1,
    units: int = 1,
    arena_bytes: int = 0,
    constants_bytes: int = 0,
    resident_bytes: int = 0,
    once_steps: int = 0,
) -> bytes:
    return builder.finish(
        input_count=inputs,
        output_count=outputs,
        unit_count=units,
        arena_bytes=arena_bytes,
        scratch_bytes=512,
        constants_bytes=constants_bytes,
        resident_bytes=resident_bytes,
        once_steps=once_steps,
    )


def chain_plan(length: int, size: int) -> bytes:
    """Adds 1, 2, .. `length` to an input of `size` numbers, through two halves of the arena."""
    builder = PlanBuilder()
    half = size * 4
    for step in range(length):
        source = Operand(Space.ARENA, 0, (step - 1) % 2 * half) if step else Operand(Space.INPUT)
        last = step == length - 1
        target = Operand(Space.OUTPUT) if last else Operand(Space.ARENA, 0, step % 2 * half)
        amount = np.array([step + 1], np.int32).tobytes()
        builder.add_step(0, ADD, [source, target], amount, size, step, WORK)
    return finish(builder, arena_bytes=2 * half)


def output_plan(kernel: int, tasks: int, steps: int = 1) -> bytes:
    """Steps of one kernel that work on output 0 only."""
    builder = PlanBuilder()
    for step in range(steps):
        builder.add_step(0, kernel, [Operand(Space.OUTPUT)], b"", tasks, step, WORK)
    return finish(builder, inputs=0)


def executable(plan: bytes, constants: bytes = b"") -> Executable:
    return Executable(runtime(), plan, constants, [unit_image()])


def wait_until_begun(target: Ints) -> None:
    """Wait until a run in another thread has counted up this output of zeros."""
    while not target.any():
        time.sleep(0.001)


@contextmanager
def cancelled_once_begun(binding: Binding, target: Ints) -> Iterator[None]:
    """Another thread cancels the run of this block as soon as it has begun."""

    def cancel() -> None:
        wait_until_begun(target)
        binding.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    yield
    thread.join()


def chain(length: int, size: int, threads: int) -> tuple[Binding, Ints, Ints]:
    """A bound chain with its input and output."""
    source, target = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
    binding = Binding(executable(chain_plan(length, size)), [source], [target], threads)
    return binding, source, target
