"""Trials of the modes in which a binding uses its threads, with steps whose times are given."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32
from functools import lru_cache

import numpy as np
import pytest

from circlet.backends.cpu.loader import Library
from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import native_target

# Goes through `runs` runs; writes of each of them what each step was: 1 on one thread, else 0.
REPLAY = r"""
#include "circlet_runtime.c"
static void no_kernel(const void *params, void *const *operands, void *scratch, int64_t begin,
                      int64_t end) {}
CIRCLET_EXPORT uint32_t replay(uint32_t count, const uint32_t *serial_ns,
                               const uint32_t *parallel_ns, uint32_t runs, uint8_t *is_serial) {
    bound_step steps[16] = {0};
    schedule s = {0};
    for (uint32_t i = 0; i < count; i++) {
        steps[i].kernel = (circlet_kernel)no_kernel;
        steps[i].tasks = 64;
        schedule_split(&steps[i], 2, UINT64_MAX);
    }
    for (uint32_t run = 0; run < runs; run++) {
        uint32_t is_sampled = schedule_next(&s, steps, count, 2);
        uint64_t whole = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t alone = steps[i].is_serial, ns = alone ? serial_ns[i] : parallel_ns[i];
            is_serial[run * count + i] = (uint8_t)alone;
            if (is_sampled) schedule_record_step(&s, &steps[i], ns);
            whole += ns;
        }
        if (is_sampled) schedule_record_run(&s, steps, count, 2, whole);
    }
    return s.chosen;
}
"""
RUNS = 200


@lru_cache(maxsize=1)
def library() -> Library:
    return Library(compile_unit(REPLAY, native_target()), "runtime")


def replayed(serial_us: list[float], parallel_us: list[float]) -> np.ndarray:
    """Whether each step was on one thread in each run, bool[runs, steps]."""
    serial, parallel = (np.array(us) * 1e3 for us in (serial_us, parallel_us))
    serial, parallel = serial.astype(np.uint32), parallel.astype(np.uint32)
    seen = np.zeros((RUNS, len(serial)), np.uint8)
    replay = library().function(
        "replay", c_uint32, ctypes.c_void_p, ctypes.c_void_p, c_uint32, ctypes.c_void_p
    )
    replay(len(serial), serial.ctypes.data, parallel.ctypes.data, RUNS, seen.ctypes.data)
    return seen.astype(bool)


@pytest.mark.smoke
def test_long_steps_of_long_runs_are_never_tried_on_one_thread() -> None:
    seen = replayed([800, 4, 900, 3, 700], [400, 9, 450, 9, 350])
    assert not seen[:, [0, 2, 4]].any()
    assert seen[-1, [1, 3]].all()


def test_each_step_of_short_runs_gets_the_threads_that_it_gains_by() -> None:
    seen = replayed([90, 4, 80, 3], [45, 9, 40, 9])
    assert seen.any(axis=0).all()
    assert seen[-1].tolist() == [False, True, False, True]


def test_steps_that_gain_nothing_by_threads_are_left_to_one() -> None:
    assert replayed([4, 5, 3], [9, 9, 9])[-1].all()


def test_trials_take_little_of_the_first_runs() -> None:
    serial, parallel = [800.0, 4, 900, 3, 700], [400.0, 9, 450, 9, 350]
    seen = replayed(serial, parallel)
    spent = np.where(seen, serial, parallel).sum(axis=1)
    assert spent.sum() <= 1.01 * RUNS * np.minimum(serial, parallel).sum()
