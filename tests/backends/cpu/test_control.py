"""IF and WHILE as jumps: native results equal the records'."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.base import CompileJob
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.errors import InputError
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.build import builder
from circlet.options import Options
from circlet.placement.interface import Reason
from circlet.plan.shapes import fix_shapes
from circlet.target.targets import native_target
from tests.backends.cpu.harness import check_native, run_native
from tests.branches import choice
from tests.windows import conv2d_attrs

TARGETS = ("native", "generic")
FLOATS, COUNT = (2, 3), (1,)


def add(step: float, name: str) -> Graph:
    b = builder(name)
    x = b.input("x", DType.FLOAT32, FLOATS)
    return b.output(
        b.op("ADD", [x, b.constant("c", np.array([step], np.float32))], name="y")
    ).build()


def branching(nested: bool = False) -> Graph:
    b = builder("main")
    flag = b.input("flag", DType.BOOL, (1,))
    x = b.input("x", DType.FLOAT32, FLOATS)
    doubled = b.op("MUL", [x, x], name="squared")
    result = Tensor("result", DType.FLOAT32, FLOATS)
    b.op_many("IF", [flag, doubled], [result])
    graph = b.output(b.op("NEG", [result], name="negated")).build()
    otherwise = branching() if nested else add(-1, "otherwise")
    if nested:
        inner = builder("outer")
        y = inner.input("y", DType.FLOAT32, FLOATS)
        no = inner.constant("no", np.array([False]))
        chosen = Tensor("chosen", DType.FLOAT32, FLOATS)
        inner.op_many("IF", [no, y], [chosen])
        otherwise = inner.output(chosen).build()
        otherwise.ops[0].regions = [add(5, "five"), add(7, "seven")]
    next(op for op in graph.ops if op.kind == "IF").regions = [add(1, "then"), otherwise]
    return graph


def padding_branches() -> Graph:
    """Both branches, and what follows them, read one image through SAME windows."""
    shape, quant = (1, 5, 6, 4), Quantization.per_tensor(0.05, 100)

    def convolved(b: Builder, x: Tensor, seed: int) -> Tensor:
        values = np.random.default_rng(seed).integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
        weights = b.constant("w", values, Quantization.per_tensor(0.01))
        return b.op("CONV_2D", [x, weights, None], conv2d_attrs("SAME", 1, 1), quant=quant)

    def branch(seed: int) -> Graph:
        b = builder(f"branch{seed}")
        return b.output(convolved(b, b.input("x", DType.INT8, shape, quant), seed)).build()

    main = builder("main")
    given = main.input("flag", DType.BOOL, (1,)), main.input("x", DType.INT8, shape, quant)
    result = Tensor("result", DType.INT8, shape, quant)
    main.op_many("IF", list(given), [result])
    graph = main.output(result, convolved(main, given[1], 3)).build()
    graph.ops[0].regions = [branch(1), branch(2)]
    return graph


def looping(swap: bool, turns: int = 7) -> Graph:
    """count += 1; a, b = b, a + b (or a, b = a, a + b) until count == turns."""
    condition = builder("condition")
    count = condition.input("count", DType.INT32, COUNT)
    for name in ("a", "b"):
        condition.input(name, DType.FLOAT32, FLOATS)
    limit = condition.constant("limit", np.array([turns], np.int32))
    condition.output(condition.op("LESS", [count, limit], name="less"))
    body = builder("body")
    count = body.input("count", DType.INT32, COUNT)
    a = body.input("a", DType.FLOAT32, FLOATS)
    b = body.input("b", DType.FLOAT32, FLOATS)
    body.output(body.op("ADD", [count, body.constant("one", np.array([1], np.int32))], name="next"))
    body.output(b if swap else a)
    body.output(body.op("ADD", [a, b], name="sum"))
    main = builder("main")
    given = [
        main.input("count", DType.INT32, COUNT),
        main.input("a", DType.FLOAT32, FLOATS),
        main.input("b", DType.FLOAT32, FLOATS),
    ]
    results = [Tensor(f"{t.name} after", t.dtype, t.shape) for t in given]
    main.op_many("WHILE", list(given), results)
    for result in results:
        main.output(result)
    graph = main.build()
    graph.ops[0].regions = [condition.build(), body.build()]
    return graph


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("flag", [False, True])
def test_a_branch_runs_by_its_flag(flag: bool, nested: bool, target: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(FLOATS)
    check_native(branching(nested), [np.array([flag]), x], target)


@pytest.mark.parametrize("flag", [False, True])
def test_a_border_is_filled_in_whichever_branch_runs(flag: bool) -> None:
    image = np.random.default_rng(0).integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)
    check_native(padding_branches(), [np.array([flag]), image])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("start", [0, 6, 7, 9])
def test_a_loop_turns_until_its_condition_fails(start: int, swap: bool, target: str) -> None:
    a = np.arange(6, dtype=np.float32).reshape(FLOATS)
    check_native(looping(swap), [np.array([start], np.int32), a, a + 1], target, threads=2)


def test_a_loop_whose_shapes_change_is_refused_with_the_reason() -> None:
    graph = looping(False)
    graph.ops[0].regions[1].outputs[2].shape = (2, 4)
    answer = CpuCompiler(CompileJob(Options(), (native_target(),))).supports(graph.ops[0])
    assert isinstance(answer, Reason)
    assert "shape" in answer.text


def test_a_branch_that_sizes_do_not_fit_ends_the_run_that_takes_it() -> None:
    graph, x = choice(3, 5).main, np.ones(3, np.float32)
    graph.inputs[1].shape = (3,)
    fix_shapes(graph, DEFAULT_LIMITS)
    (got,) = run_native(graph, [np.array(True), x])
    np.testing.assert_array_equal(got, [1, 2, 3])
    with pytest.raises(InputError, match="an operand holds"):
        run_native(graph, [np.array(False), x])
