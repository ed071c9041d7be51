"""What depends on no input runs once, and stays."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from circlet.backends.cpu.abi import Operand, PlanBuilder, Space
from circlet.backends.cpu.compile import LoweredPartition, compile_partition
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.errors import BackendError, DeadlineError, LimitError
from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.limits import MemoryBudget
from circlet.ops.build import builder
from circlet.ops.lasting import lasting
from circlet.ops.layout import ConcatenationAttrs
from circlet.plan.partition import Partition, partition
from circlet.target.targets import native_target
from tests.backends.cpu import native
from tests.backends.cpu.harness import AND_V3, check_native, check_results, runtime
from tests.windows import conv2d_attrs

# Python 3.12 warns of what these tests prove to work.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

F32 = DType.FLOAT32
IMAGE = (1, 9, 10, 16)


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _made(b: Builder, seed: int, *shape: int) -> Tensor:
    """A tensor that is computed of constants alone."""
    left, right = b.constant(f"l{seed}", _values(seed, *shape)), b.constant("r", _values(9, 1))
    return b.op("MUL", [left, right], name=f"made {seed}")


def layers(filters: int = 24, image: Sequence[int] = IMAGE, size: int = 3) -> Graph:
    """Two layers over weights that are computed of constants, which both read."""
    b = builder()
    x = b.input("x", F32, tuple(image))
    weights, bias = _made(b, 1, filters, size, size, image[3]), _made(b, 2, filters)
    attrs = conv2d_attrs("SAME", 1, 1)
    halves = [b.op("CONV_2D", [y, weights, bias], attrs) for y in (x, b.op("NEG", [x]))]
    return b.output(b.op("ADD", halves)).build()


def _whole(graph: Graph) -> Partition:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return whole


def _compiled(graph: Graph, budget: MemoryBudget | None = None) -> LoweredPartition:
    return compile_partition(_whole(graph), native_target(), 1, budget=budget)


def _loaded(compiled: LoweredPartition) -> Executable:
    images = compile_units([UnitSource(text, native_target()) for text in compiled.units])
    return Executable(runtime(), compiled.plan, compiled.constants, images)


def _kernels(compiled: LoweredPartition) -> tuple[list[str], list[str]]:
    """Those of the steps that run once, and of all others."""
    names = [name for _, name in compiled.steps]
    return names[: compiled.once], names[compiled.once :]


SIZES = {"winograd": (40, (1, 12, 13, 19), 3), "few_filters": (5, IMAGE, 3), "rows": (24, IMAGE, 2)}


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", SIZES)
def test_results_equal_the_records(case: str, target: str) -> None:
    filters, image, size = SIZES[case]
    graph = layers(filters, image, size)
    check_native(graph, [_values(3, *image)], target, threads=2)


def test_packing_runs_once_and_what_it_reads_is_not_kept() -> None:
    compiled = _compiled(layers())
    once, every = _kernels(compiled)
    assert once.count("elementwise") == 2
    assert every.count("conv_f32") + every.count("winograd_f32") == 2
    assert not any("pack" in name for name in every)
    assert any("pack" in name for name in once)
    assert compiled.resident
    assert not any("made" in name for name, _ in compiled.resident)


def test_later_runs_leave_out_what_ran_once() -> None:
    graph = layers()
    compiled = _compiled(graph)
    executable = _loaded(compiled)
    for seed in (3, 4):
        x, y = _values(seed, *IMAGE), np.zeros((1, 9, 10, 24), np.float32)
        binding = Binding(executable, [x], [y], 2)
        times = binding.profile()
        binding.run()
        assert [ns > 0 for ns in times[: compiled.once]] == [seed == 3] * compiled.once
        assert (times[compiled.once :] > 0).all()
        check_results(graph, [x], [y])


def test_each_is_made_right_before_it_is_needed() -> None:
    """Weights of many layers are not alive together, however early the file makes them."""
    b = builder()
    y = b.input("x", F32, (8, 256))
    weights = [_made(b, seed, 256, 256) for seed in range(6)]
    for made in weights:
        y = b.op("FULLY_CONNECTED", [y, made, None])
    graph = b.output(y).build()
    compiled = _compiled(graph)
    assert len(compiled.resident) == len(weights)
    assert compiled.memory.arena_bytes < 2 * 256 * 256 * 4
    check_native(graph, [_values(3, 8, 256) / 16], tolerance=1e-4)


def test_what_a_run_writes_over_is_made_in_each() -> None:
    """The cache is updated where it lives, and the row becomes a part of what is concatenated."""
    b = builder()
    x = b.input("x", F32, (1, 4))
    start = b.constant("start", np.array([2, 0], np.int32))
    updated = b.op("DYNAMIC_UPDATE_SLICE", [_made(b, 1, 5, 4), x, start])
    joined = b.op("CONCATENATION", [_made(b, 2, 1, 4), x], ConcatenationAttrs(axis=0))
    graph = b.output(b.op("NEG", [updated]), b.op("NEG", [joined])).build()
    executable = _loaded(_compiled(graph))
    for seed in (3, 4):
        x_value = _values(seed, 1, 4)
        made = [np.zeros(t.static_shape, np.float32) for t in graph.outputs]
        for _ in range(2):
            Binding(executable, [x_value], made).run()
            check_results(graph, [x_value], made)


def test_variables_and_random_numbers_do_not_last() -> None:
    b = builder()
    drawn = b.op("RANDOM_UNIFORM", [b.constant("sizes", np.array([4], np.int32))])
    state = Tensor("state", F32, (4,), is_variable=True)
    made = _made(b, 1, 4)
    graph = b.output(b.op("ADD", [drawn, made]), b.op("ADD", [state, made])).build()
    assert lasting(graph.ops, ()) == {made}
    assert lasting(graph.ops, set(graph.ops)) == set()


def _branch(name: str, seed: int) -> Graph:
    b = builder(name)
    x = b.input("x", F32, (2, 3))
    return b.output(b.op("ADD", [x, _made(b, seed, 2, 3)])).build()


def test_jumps_find_their_steps_behind_what_runs_once() -> None:
    b = builder("main")
    flag, x = b.input("flag", DType.BOOL, (1,)), b.input("x", F32, (2, 3))
    result = Tensor("result", F32, (2, 3))
    b.op_many("IF", [flag, b.op("NEG", [x])], [result])
    graph = b.output(b.op("MUL", [result, _made(b, 3, 2, 3)])).build()
    next(op for op in graph.ops if op.kind == "IF").regions = [_branch("yes", 1), _branch("no", 2)]
    assert _compiled(graph).once == 1
    for value in (True, False):
        check_native(graph, [np.array([value]), _values(4, 2, 3)])


def test_what_is_kept_is_charged() -> None:
    compiled = _compiled(layers())
    needed = compiled.memory.arena_bytes + compiled.resident_bytes
    budget = MemoryBudget(1 << 30)
    _compiled(layers(), budget)
    assert budget.taken >= needed
    with pytest.raises(LimitError, match="computed once"):
        _compiled(layers(), MemoryBudget(budget.taken - 1))


def _counting(once: int, tasks: int = 8) -> Executable:
    """Naps that count tasks in resident memory, then a sum of it with the input."""
    plan = PlanBuilder()
    for _ in range(once):
        plan.add_step(0, native.NAP, [Operand(Space.RESIDENT)], b"", tasks, 0, native.WORK)
    amount = np.zeros(1, np.int32).tobytes()
    plan.add_step(0, native.ADD, [Operand(Space.RESIDENT), Operand(Space.OUTPUT)], amount, tasks)
    made = native.finish(plan, inputs=0, resident_bytes=4 * tasks, once_steps=once)
    return native.executable(made)


def _counts(executable: Executable, timeout_ns: int = 0) -> list[int]:
    target = np.zeros(8, np.int32)
    Binding(executable, [], [target]).run(timeout_ns)
    return list(map(int, target))


def test_threads_that_start_together_make_it_once() -> None:
    executable, found = _counting(2), list[list[int]]()
    callers = [threading.Thread(target=lambda: found.append(_counts(executable))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [[2] * 8] * 4


def test_a_run_that_is_ended_leaves_it_to_the_next() -> None:
    executable = _counting(4)
    with pytest.raises(DeadlineError):
        _counts(executable, 1)
    first = _counts(executable)
    assert min(first) >= 4
    assert _counts(executable) == first


def _wait_until_begun(executable: Executable) -> None:
    """Wait until another thread has counted in resident memory."""
    looking = Binding(executable, [], [np.zeros(8, np.int32)])
    counted = (ctypes.c_int32 * 8).from_address(looking._address(Space.RESIDENT, 0, 0))
    native.wait_until_begun(np.ctypeslib.as_array(counted))


def test_who_waits_for_it_may_give_up() -> None:
    executable = _counting(50)
    maker = threading.Thread(target=_counts, args=(executable,))
    maker.start()
    _wait_until_begun(executable)
    with pytest.raises(DeadlineError):
        _counts(executable, 10_000_000)
    maker.join()
    assert _counts(executable) == [50] * 8


def test_a_child_makes_what_its_parent_was_making() -> None:
    executable = _counting(20)
    maker = threading.Thread(target=_counts, args=(executable,))
    maker.start()
    _wait_until_begun(executable)
    child = os.fork()
    if child == 0:  # what the parent had counted by then is counted on
        os._exit(0 if min(_counts(executable)) >= 20 else 1)
    assert os.waitpid(child, 0)[1] == 0
    maker.join()
    assert _counts(executable) == [20] * 8


def test_an_observer_is_told_once() -> None:
    graph = layers()
    compiled = _compiled(graph)
    executable = _loaded(compiled)
    executable.values = compiled.values()
    told: dict[str, np.ndarray] = {}
    x, y = _values(3, *IMAGE), np.zeros((1, 9, 10, 24), np.float32)
    binding = Binding(executable, [x], [y])
    binding.observe(lambda seen: told.update((v.name, v.array.copy()) for v in seen.values))
    binding.run()
    np.testing.assert_array_equal(told["made 1"], _values(1, 24, 3, 3, 16) * _values(9, 1))
    told.clear()
    binding.run()
    assert told
    assert not {"made 1", "made 2"} & told.keys()
    binding.observe(None)


def test_an_observer_cannot_wait_for_itself() -> None:
    graph = layers()
    compiled = _compiled(graph)
    executable = _loaded(compiled)
    executable.values = compiled.values()
    x, y = _values(3, *IMAGE), np.zeros((1, 9, 10, 24), np.float32)
    inner, outer = Binding(executable, [x], [y.copy()]), Binding(executable, [x], [y])
    outer.observe(lambda seen: inner.run())
    with pytest.raises(BackendError):
        outer.run()
    outer.observe(None)
    outer.run()
    check_results(graph, [x], [y])
