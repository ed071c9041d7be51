from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu.abi import Operand, PlanBuilder, Space
from circlet.backends.cpu.c_compiler import find_compiler
from circlet.backends.cpu.executable import Binding
from circlet.backends.cpu.status import Status
from circlet.backends.cpu.toolchain import RUNTIME_DIR, compile_unit
from circlet.errors import (
    ArtifactError,
    BackendError,
    CancelledError,
    DeadlineError,
    InputError,
)
from circlet.target.targets import native_target, parse_target
from tests.backends.cpu import native

# Python 3.12 warns of what these tests prove to work.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

NS_PER_MS = 1_000_000


@pytest.mark.smoke
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_chain_of_steps_gives_the_sum(threads: int, size: int) -> None:
    binding, source, target = native.chain(20, size, threads)
    for _ in range(50):
        target[:] = 0
        binding.run()
        np.testing.assert_array_equal(target, source + 210)


@pytest.mark.parametrize("threads", [1, 2, 3, 64, 1000])
@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 8, 9, 1001])
def test_every_task_is_done_once(threads: int, tasks: int) -> None:
    target = np.zeros(max(tasks, 1), np.int32)
    Binding(native.executable(native.output_plan(native.COUNT, tasks)), [], [target], threads).run()
    assert target[:tasks].tolist() == [1] * tasks


@pytest.mark.parametrize("tasks", [2, 9, 1001])
def test_every_task_is_done_once_in_each_of_many_runs(tasks: int) -> None:
    target = np.zeros(tasks, np.int32)
    binding = Binding(
        native.executable(native.output_plan(native.COUNT, tasks, 3)), [], [target], 2
    )
    for turn in range(1, 20):
        binding.run()
        assert target.tolist() == [3 * turn] * tasks


@pytest.mark.parametrize("runs", [15, 15 + 16 + 15])
def test_short_steps_end_up_on_the_calling_thread(runs: int) -> None:
    target = np.zeros(16, np.int64)
    binding = Binding(native.executable(native.output_plan(native.PLACE, 16)), [], [target], 2)
    for _ in range(runs):
        binding.run()
    for _ in range(15):
        target[:] = 0
        binding.run()
        assert len(set(target.tolist())) == 1


def test_threads_do_not_share_scratch() -> None:
    target = np.zeros(2000, np.int64)
    Binding(native.executable(native.output_plan(native.SCRATCH, 2000)), [], [target], 4).run()
    assert set(target.tolist()) == {64}


def test_one_thread_makes_no_worker() -> None:
    script = (
        "from tests.backends.cpu import native\n"
        "native.chain(3, 100, 1)[0].run()\n"
        "assert native.runtime().pool_workers() == 0\n"
        "native.chain(3, 100, 3)[0].run()\n"
        "assert native.runtime().pool_workers() == 2\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], check=True, timeout=240, cwd=root)


@pytest.mark.smoke
def test_callers_on_several_threads_get_right_answers() -> None:
    failures: list[str] = []

    def work() -> None:
        binding, source, target = native.chain(10, 500, 2)
        for turn in range(200):
            source[:] = turn
            binding.run()
            if not (target == turn + 55).all():
                failures.append(f"turn {turn}")

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert failures == []


def test_one_binding_does_one_run_at_a_time() -> None:
    target = np.zeros(1, np.int32)
    binding = Binding(native.executable(native.output_plan(native.SLOW, 1, 2000)), [], [target])
    caller = threading.Thread(target=_run_until_cancelled, args=(binding,))
    caller.start()
    native.wait_until_begun(target)
    with pytest.raises(BackendError, match="already running"):
        binding.run()
    with pytest.raises(BackendError):
        binding.set_output(0, target)
    binding.cancel()
    caller.join()


def _run_until_cancelled(binding: Binding) -> None:
    with pytest.raises(CancelledError):
        binding.run()


def test_cancel_stops_the_run_in_progress_and_no_later_one() -> None:
    target = np.zeros(2, np.int32)
    binding = Binding(native.executable(native.output_plan(native.SLOW, 2, 2000)), [], [target], 2)
    binding.cancel()
    with native.cancelled_once_begun(binding, target), pytest.raises(CancelledError):
        binding.run()
    assert target.max() < 2_000_000_000  # what all steps would have counted
    binding.cancel()
    with pytest.raises(DeadlineError):
        binding.run(1)


def test_a_timeout_ends_the_run_and_the_next_run_is_whole() -> None:
    target = np.zeros(1, np.int32)
    binding = Binding(native.executable(native.output_plan(native.SLOW, 1, 20)), [], [target])
    with pytest.raises(DeadlineError):
        binding.run(NS_PER_MS)
    target[:] = 0
    binding.run(2**64 - 1)
    assert target[0] == 20_000_000


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_has_its_own_pool(threads: int) -> None:
    binding, source, target = native.chain(20, 1000, 2)
    binding.run()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_run_in_child, args=(binding, threads, queue))
    child.start()
    workers = queue.get()
    child.join(60)
    assert (child.exitcode, workers) == (0, threads - 1)
    binding.run()
    np.testing.assert_array_equal(target, source + 210)


def _run_in_child(
    binding: Binding, threads: int, queue: multiprocessing.queues.SimpleQueue[int]
) -> None:
    own, source, target = native.chain(20, 1000, threads)
    own.run()
    ok = bool((target == source + 210).all())
    queue.put(native.runtime().pool_workers() if ok else -1)
    binding.run()


def test_fork_during_a_run_leaves_the_child_a_usable_binding() -> None:
    target = np.zeros(1, np.int32)
    plan = native.output_plan(native.SLOW, 1, 2000)
    binding = Binding(native.executable(plan), [], [target])
    caller = threading.Thread(target=_run_until_cancelled, args=(binding,))
    caller.start()
    native.wait_until_begun(target)
    child = os.fork()
    if child == 0:
        _exit_with_status_of_a_run(binding)
    _, status = os.waitpid(child, 0)
    binding.cancel()
    caller.join()
    assert os.waitstatus_to_exitcode(status) == 0


def _exit_with_status_of_a_run(binding: Binding) -> None:
    try:
        binding.run(NS_PER_MS)
    except DeadlineError:
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="MXCSR is a register of x86")
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_see_denormals_and_the_caller_keeps_its_state(threads: int, tmp_path: Path) -> None:
    helper = ctypes.CDLL(str(_float_state_helper(tmp_path)))
    flush_to_zero = 0x9FC0
    target = np.zeros(64, np.float32)
    plan = native.output_plan(native.FLOAT_STATE, 64)
    binding = Binding(native.executable(plan), [], [target], threads)
    before = helper.get_state()
    helper.set_state(flush_to_zero)
    try:
        binding.run()
        after = helper.get_state()
    finally:
        helper.set_state(before)
    assert after == flush_to_zero
    assert (target.view(np.int32) != 0).all()


def _float_state_helper(folder: Path) -> Path:
    text = """
    #define EXPORT __attribute__((visibility("default")))
    EXPORT int get_state(void) { return (int)__builtin_ia32_stmxcsr(); }
    EXPORT void set_state(int state) { __builtin_ia32_ldmxcsr((unsigned)state); }
    """
    path = folder / "state.so"
    path.write_bytes(compile_unit(text, native_target()))
    return path


def test_buffers_can_be_replaced() -> None:
    binding, source, target = native.chain(2, 10, 1)
    other_in, other_out = np.full(10, 100, np.int32), np.zeros(10, np.int32)
    binding.set_input(0, other_in)
    binding.run()
    assert target.tolist() == [103] * 10
    binding.set_output(0, other_out)
    binding.set_input(0, source)
    binding.run()
    assert other_out.tolist() == (source + 3).tolist()
    with pytest.raises(InputError):
        binding.set_input(1, source)
    with pytest.raises(InputError):
        binding.set_input(0, np.zeros((10, 2), np.int32)[:, 0])


def test_a_binding_without_all_buffers_does_not_run() -> None:
    native_runtime = native.runtime()
    out = ctypes.c_void_p()
    made = native.executable(native.chain_plan(1, 4))
    assert native_runtime.binding_create(made.handle, None, None, 1, ctypes.byref(out)) == 0
    assert native_runtime.run(out, 0) == Status.BAD_PORT
    assert native_runtime.binding_destroy(out) == Status.OK


def test_constants_are_read_in_place() -> None:
    builder = PlanBuilder()
    constants = np.arange(32, dtype=np.int32).tobytes()
    operands = [Operand(Space.CONSTANT, 0, 64), Operand(Space.OUTPUT)]
    builder.add_step(0, native.ADD, operands, np.array([5], np.int32).tobytes(), 16)
    plan = native.finish(builder, inputs=0, constants_bytes=len(constants))
    target = np.zeros(16, np.int32)
    Binding(native.executable(plan, constants), [], [target]).run()
    assert target.tolist() == list(range(21, 37))
    with pytest.raises(ArtifactError):
        native.executable(plan, constants[:-1])


def test_profiling_times_each_step() -> None:
    target = np.zeros(1, np.int32)
    binding = Binding(native.executable(native.output_plan(native.SLOW, 1, 3)), [], [target])
    step_ns = binding.profile()
    binding.run()
    assert (step_ns > 10_000).all()
    binding.profile(enabled=False)
    step_ns[:] = 0
    binding.run()
    assert not step_ns.any()


def test_the_last_release_is_reported() -> None:
    native_runtime = native.runtime()
    made = native.executable(native.chain_plan(1, 4))
    out = ctypes.c_void_p()
    assert native_runtime.binding_create(made.handle, None, None, 1, ctypes.byref(out)) == 0
    release = native_runtime.library.function("circlet_executable_release", ctypes.c_void_p)
    retain = native_runtime.library.function("circlet_executable_retain", ctypes.c_void_p)
    retain(made.handle)
    assert release(made.handle) == 0
    assert native_runtime.binding_destroy(out) == 0
    retain(made.handle)
    assert release(made.handle) == 0


def test_run_outlives_the_binding_and_the_executable() -> None:
    binding, source, target = native.chain(4, 100, 2)
    run = binding.run
    del binding
    gc.collect()
    run()
    np.testing.assert_array_equal(target, source + 10)


def _mapped_units() -> int:
    return Path("/proc/self/maps").read_text().count("circlet-unit")


def test_many_executables_are_loaded_and_unloaded() -> None:
    gc.collect()  # what other tests left to it would be unloaded meanwhile
    before = _mapped_units()
    for turn in range(50):
        binding, source, target = native.chain(turn % 3 + 1, 8, 1)
        binding.run()
        assert target[0] == sum(range(turn % 3 + 2)), source
        del binding
    assert _mapped_units() < before + 20


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "armv7", "riscv64"])
def test_the_library_compiles_without_warnings(arch: str) -> None:
    text = (RUNTIME_DIR / "circlet_runtime.c").read_text()
    image = compile_unit(text, parse_target(arch), flags=("-Wall", "-Wextra", "-Werror"))
    assert b"circlet_run\0" in image


HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "circlet_runtime.h"

#define GET(library, name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)

int main(int count, char **arguments) {
    static _Alignas(64) char plan[65536];
    FILE *file = fopen(arguments[3], "rb");
    size_t bytes = fread(plan, 1, sizeof plan, file);
    void *runtime = dlopen(arguments[1], RTLD_NOW), *unit = dlopen(arguments[2], RTLD_NOW);
    if (!runtime || !unit) return puts(dlerror()), 1;
    GET(runtime, circlet_executable_create);
    GET(runtime, circlet_binding_create);
    GET(runtime, circlet_run);
    GET(runtime, circlet_binding_destroy);
    GET(runtime, circlet_executable_release);
    const circlet_unit *units[] = {dlsym(unit, "circlet_unit_table")};
    circlet_executable *executable;
    circlet_binding *binding;
    int32_t input[100] = {7}, output[100];
    void *inputs[] = {input}, *outputs[] = {output};
    if (circlet_executable_create_(plan, bytes, NULL, 0, units, 1, &executable)) return 2;
    if (circlet_binding_create_(executable, inputs, outputs, 2, &binding)) return 3;
    if (circlet_run_(binding, 0)) return 4;
    if (circlet_binding_destroy_(binding)) return 5;
    if (!circlet_executable_release_(executable)) return 6;
    printf("%d %d\n", output[0], output[99]);
    return count != 4;
}
"""


def test_a_c_program_runs_a_plan_without_python(tmp_path: Path) -> None:
    (tmp_path / "host.c").write_text(HOST)
    (tmp_path / "runtime.so").write_bytes(native.runtime_image())
    (tmp_path / "unit.so").write_bytes(native.unit_image())
    (tmp_path / "plan").write_bytes(native.chain_plan(4, 100))
    system = shutil.which("cc")  # builds no libc first, which takes zig half a minute
    compiler = [system] if system else find_compiler().command
    command = [*compiler, f"-I{RUNTIME_DIR}", "host.c", "-o", "host"]
    subprocess.run([*command, "-ldl", "-lpthread"], cwd=tmp_path, check=True, timeout=120)
    names = ["./host", "./runtime.so", "./unit.so", "plan"]
    result = subprocess.run(
        names, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (result.returncode, result.stdout) == (0, "17 10\n")
