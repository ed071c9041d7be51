"""Teams of threads: how steps are shared out, who waits for whom, runs side by side."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from ctypes import c_int64, c_uint32, c_uint64
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu.executable import Binding
from circlet.backends.cpu.loader import Library
from circlet.backends.cpu.toolchain import KERNELS_DIR, RUNTIME_DIR, compile_unit
from circlet.errors import CancelledError
from circlet.target.targets import native_target
from tests.backends.cpu import native

# Functions of the runtime library that it does not export, called by themselves.
INSIDE = r"""
#include "circlet_runtime.c"
CIRCLET_EXPORT uint32_t split(int64_t tasks, uint32_t threads, uint64_t worthwhile,
                              int64_t *firsts) {
    bound_step step = {.tasks = tasks};
    schedule_split(&step, threads, worthwhile);
    for (uint32_t i = 0; i <= step.chunks; i++) firsts[i] = first_task(&step, i);
    return step.chunks;
}
static thread_team team;
CIRCLET_EXPORT void shares(uint32_t chunks, uint32_t threads, uint32_t *begins) {
    bound_step step = {.chunks = chunks};
    offer(&team, &step, threads);
    for (uint32_t i = 0; i < threads; i++) begins[i] = i ? ticket_begin(team.shares[i].open) : 0;
    begins[threads] = ticket_end(team.shares[threads - 1].open);
}
static thread_team *begun[8];
CIRCLET_EXPORT uint32_t begin_run(uint32_t number, uint32_t threads) {
    uint32_t place = 0;
    begun[number] = pool_begin_run(pool_of_process(), &threads, &place);
    return threads;
}
CIRCLET_EXPORT void end_run(uint32_t number) { pool_end_run(pool_of_process(), begun[number]); }
CIRCLET_EXPORT uint32_t move_thread(uint32_t thread, uint32_t core) {
    return sys_move_thread(thread, core);
}
CIRCLET_EXPORT uint64_t thread_ns(uint32_t thread) { return sys_thread_ns(thread); }
"""


@lru_cache(maxsize=1)
def inside() -> Library:
    return Library(compile_unit(INSIDE, native_target()), "runtime")


@pytest.mark.parametrize("threads", [2, 3, 7, 16, 64])
@pytest.mark.parametrize("tasks", [2, 9, 16, 17, 40, 100, 127, 128, 1000, 10**15])
@pytest.mark.parametrize("worthwhile", [0, 5, 1000])
def test_threads_get_equal_parts_of_a_step(threads: int, tasks: int, worthwhile: int) -> None:
    firsts, begins = (c_int64 * 600)(), (c_uint32 * 65)()
    split = inside().function("split", c_int64, c_uint32, c_uint64, ctypes.c_void_p)
    chunks = split(tasks, threads, worthwhile, firsts)
    used = min(threads, chunks)
    inside().function("shares", c_uint32, c_uint32, ctypes.c_void_p)(chunks, used, begins)
    assert (firsts[0], firsts[chunks]) == (0, tasks)
    assert (begins[0], begins[used]) == (0, chunks)
    assert chunks <= (8 * threads if worthwhile >= 4 * threads else max(threads, worthwhile))
    sizes = np.diff(firsts[: chunks + 1])
    assert 1 <= sizes.min() <= sizes.max() <= sizes.min() + 1
    parts = np.diff([firsts[begin] for begin in begins[: used + 1]])
    assert parts.max() - parts.min() <= 1


@pytest.mark.smoke
@pytest.mark.parametrize("tasks", [2, 3, 9])
def test_a_run_goes_on_when_workers_wake_up_that_were_stopped_inside_of_a_chunk(tasks: int) -> None:
    target = np.zeros(tasks, np.int32)
    binding = Binding(native.executable(native.output_plan(native.NAP, tasks, 3)), [], [target], 3)
    for turn in range(1, 8):
        binding.run()
        assert target.tolist() == [3 * turn] * tasks


def test_a_caller_that_sleeps_beside_its_workers_notices_that_it_is_cancelled() -> None:
    target = np.zeros(4, np.int32)
    plan = native.output_plan(native.NAP, 4, 1000)
    binding = Binding(native.executable(plan), [], [target], 2)
    with native.cancelled_once_begun(binding, target), pytest.raises(CancelledError):
        binding.run()
    assert target.max() < 1000


def test_runs_side_by_side_share_the_cores_out() -> None:
    cores = len(os.sched_getaffinity(0))
    begin = inside().function("begin_run", c_uint32, c_uint32)
    end = inside().function("end_run", c_uint32)
    for threads in (2, 5):
        assert begin(0, threads) == threads
        assert [begin(i, threads) for i in (1, 2)] == [
            max(1, min(threads, cores // runs)) for runs in (2, 3)
        ]
        for number in (1, 0, 2):
            end(number)
    assert begin(3, 4) == 4
    end(3)


def test_a_thread_that_was_moved_may_run_where_it_could_before() -> None:
    move = inside().function("move_thread", c_uint32, c_uint32)
    waiting, ended = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        ended.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    assert thread.native_id
    cores = os.sched_getaffinity(thread.native_id)
    moved = [move(thread.native_id, core) for core in range(max(cores) + 2)]
    assert moved == [int(core in cores) for core in range(max(cores) + 2)]
    assert os.sched_getaffinity(thread.native_id) == cores
    ended.set()
    thread.join()


HOST = r"""
#include <pthread.h>
#include <stdio.h>
#include "circlet_runtime.h"
enum { SIZE = 1000, TURNS = 400 };
static int32_t wrong;
static _Alignas(64) char plan[65536];
static size_t plan_bytes;
extern const circlet_unit circlet_unit_table;

static void *work(void *argument) {
    const circlet_unit *units[] = {&circlet_unit_table};
    int32_t input[SIZE], output[SIZE];
    void *inputs[] = {input}, *outputs[] = {output};
    circlet_executable *executable;
    circlet_binding *binding;
    int32_t failed = circlet_executable_create(plan, plan_bytes, NULL, 0, units, 1, &executable) ||
                     circlet_binding_create(executable, inputs, outputs, 3, &binding);
    for (int32_t turn = 0; turn < TURNS && !failed; turn++) {
        for (int32_t i = 0; i < SIZE; i++) input[i] = turn + i;
        failed |= circlet_run(binding, 0);
        for (int32_t i = 0; i < SIZE; i++) failed |= output[i] != turn + i + 55;
    }
    __atomic_fetch_add(&wrong, failed, __ATOMIC_RELAXED);
    return argument;
}

int main(int count, char **arguments) {
    pthread_t threads[2];
    FILE *file = fopen(arguments[1], "rb");
    plan_bytes = fread(plan, 1, sizeof plan, file);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return wrong || count != 2;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="GCC is not installed")
def test_thread_sanitizer_finds_no_races(tmp_path: Path) -> None:
    (tmp_path / "host.c").write_text(HOST)
    (tmp_path / "unit.c").write_text(native.UNIT)
    (tmp_path / "plan").write_bytes(native.chain_plan(10, 1000))
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-Wno-tsan"]
    command += [f"-I{KERNELS_DIR}", f"-I{RUNTIME_DIR}", "host.c", "unit.c"]
    command += [str(RUNTIME_DIR / "circlet_runtime.c"), "-o", "host"]
    built = subprocess.run([*command, "-lpthread"], cwd=tmp_path, capture_output=True, check=False)
    if built.returncode and b"libtsan" in built.stderr:
        pytest.skip("GCC has no ThreadSanitizer here")
    assert built.returncode == 0, built.stderr.decode()
    done = subprocess.run(
        ["./host", "plan"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
