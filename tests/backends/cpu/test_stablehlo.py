"""Native code of StableHLO kinds, DILATE and REDUCE_WINDOW, against their records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ops.build import builder
from circlet.ops.stablehlo.indexed import GatherAttrs, ScatterAttrs
from circlet.ops.stablehlo.pad import PadAttrs
from circlet.ops.stablehlo.reduce import ReduceWindowAttrs, StablehloReduceWindowAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import check_native, run_native
from tests.backends.cpu.stablehlo_graphs import body

WHOLE = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)
EVERY = (DType.FLOAT32, *WHOLE)
WIDTHS = (DType.FLOAT32, DType.INT8, DType.INT64)
INDICES = np.random.default_rng(2)


class JoinCases(Cases):
    """Cases whose ops have graphs that join elements."""

    def joining(self, kind: str, inputs: Sequence[Tensor], attrs: object, join: str) -> None:
        """An op with such a graph."""
        dtype = inputs[0].dtype
        self.op(kind, inputs, attrs)
        self.builder.graph.ops[-1].regions = [body(join, dtype)]


@each_target
def test_arithmetic(target: str) -> None:
    cases = Cases()
    for dtype in EVERY:
        pair = [cases.data(dtype, (3, 37), None) for _ in range(2)]
        for kind in ("ADD", "SUBTRACT", "MULTIPLY", "MAXIMUM", "MINIMUM"):
            cases.op(f"STABLEHLO_{kind}", pair)
        cases.op("STABLEHLO_CLAMP", [pair[0], pair[1], pair[0]])
        cases.op("STABLEHLO_COMPARE", pair, dtype=DType.BOOL)
        cases.op("STABLEHLO_NEGATE", pair[:1])
    for dtype in (DType.INT8, DType.UINT8, DType.INT16, DType.INT32):
        pair = [cases.data(dtype, (2, 21), None) for _ in range(2)]
        for kind in ("AND", "OR", "DIVIDE", "REMAINDER"):
            cases.op(f"STABLEHLO_{kind}", pair)
    wide = [cases.data(DType.INT64, (2, 21), None) for _ in range(2)]
    for kind in ("AND", "OR"):
        cases.op(f"STABLEHLO_{kind}", wide)
    for dtype in (DType.INT8, DType.INT16, DType.INT32, DType.INT64):
        cases.op("STABLEHLO_ABS", [cases.data(dtype, (2, 21), None)])
    for dtype in (DType.INT8, DType.INT16, DType.INT32):
        counts = cases.given(INDICES.integers(-2, 40, (2, 21)).astype(dtype.numpy))
        cases.op("STABLEHLO_SHIFT_LEFT", [cases.data(dtype, (2, 21), None), counts])
    flags = [cases.given(INDICES.integers(0, 2, (4, 9)).astype(bool)) for _ in range(2)]
    for kind in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM", "AND", "OR"):
        cases.op(f"STABLEHLO_{kind}", flags)
    cases.check(target)


@each_target
def test_functions_of_floats(target: str) -> None:
    cases = Cases()
    x, y = (cases.data(DType.FLOAT32, (5, 19)) for _ in range(2))
    above = cases.given(np.abs(cases.values(DType.FLOAT32, (5, 19))) + np.float32(0.01))
    for kind in ("ABS", "COSINE", "EXPONENTIAL", "FLOOR", "LOGISTIC", "TANH", "CBRT"):
        cases.op(f"STABLEHLO_{kind}", [x])
    for kind in ("LOG", "RSQRT"):
        cases.op(f"STABLEHLO_{kind}", [above])
    cases.op("STABLEHLO_POWER", [above, y])
    cases.op("STABLEHLO_DIVIDE", [x, above])
    cases.op("STABLEHLO_REMAINDER", [x, y])
    cases.check(target)


@each_target
def test_of_nan_and_a_number_the_first_is_taken(target: str) -> None:
    cases = Cases()
    nan = np.float32("nan")
    first = cases.given(np.array([nan, 1, nan, -0.0, np.inf], np.float32))
    second = cases.given(np.array([1, nan, nan, 0, nan], np.float32))
    kept = [cases.op(f"STABLEHLO_{kind}", [first, second]) for kind in ("MAXIMUM", "MINIMUM")]
    known = [cases.op("STABLEHLO_COMPARE", [each, each], dtype=DType.BOOL) for each in kept]
    assert len(known) == 2
    cases.outputs[:] = known
    cases.check(target)


@each_target
def test_elements_put_apart(target: str) -> None:
    cases = Cases()
    for dtype in EVERY:
        x, value = cases.data(dtype, (3, 4, 5), None), cases.data(dtype, (), None)
        for steps in ((1, 1, 1), (2, 1, 3), (1, 4, 1)):
            cases.op("DILATE", [x, cases.constant(np.array(steps, np.int32)), value])
        for amounts in (
            ((1, 0, 2), (0, 3, 1), (0, 0, 0)),
            ((-1, 2, -2), (1, -1, -1), (1, 0, 3)),
            ((-3, -2, 5), (2, 0, -4), (2, 2, 1)),
            ((-4, 0, 0), (3, 0, 0), (0, 0, 0)),
        ):
            cases.op("STABLEHLO_PAD", [x, value], PadAttrs(*amounts))
    cases.check(target)


GATHERS = (
    (GatherAttrs((1,), (0,), (0,), 1, (1, 5)), (4, 5), (3, 1)),
    (GatherAttrs((2, 3), (0,), (1, 0), 2, (1, 2, 2)), (3, 4, 2), (2, 3, 2)),
    (GatherAttrs((0, 2), (1,), (1,), 1, (2, 1, 3)), (4, 6, 5), (7,)),
    (GatherAttrs((0,), (1,), (1,), 1, (2, 1)), (4, 6), (7,)),
    (GatherAttrs((1, 2), (), (0, 1), 0, (2, 3)), (6, 5), (2, 4)),
)


@each_target
def test_gathers(target: str) -> None:
    cases = Cases()
    for dtype in EVERY:
        for number, (attrs, shape, places) in enumerate(GATHERS):
            index = np.int64 if number % 2 else np.int32
            at = INDICES.integers(-3, 9, places).astype(index)
            at.reshape(-1)[0] = np.iinfo(index).max
            at.reshape(-1)[-1] = np.iinfo(index).min
            given = [cases.data(dtype, shape, None), cases.given(at)]
            cases.op("STABLEHLO_GATHER", given, attrs)
    cases.check(target)


SCATTERS = (
    (ScatterAttrs(False, (1,), (0,), (0,), 1), (6, 4), (5, 1), (5, 4)),
    (ScatterAttrs(False, (), (0, 1), (1, 0), 1), (4, 5), (9, 2), (9,)),
    (ScatterAttrs(False, (2, 3), (0,), (1, 0), 2), (3, 4, 2), (2, 3, 2), (2, 3, 2, 2)),
    (ScatterAttrs(False, (0,), (0,), (0,), 0), (5, 3), (1, 4), (3, 4)),
)


@each_target
def test_scatters(target: str) -> None:
    cases = JoinCases()
    for dtype in WIDTHS:
        for number, (attrs, shape, places, update) in enumerate(SCATTERS):
            index = np.int64 if number % 2 else np.int32
            at = INDICES.integers(-2, 7, places).astype(index)
            at.reshape(-1)[0] = np.iinfo(index).max
            at.reshape(-1)[-1] = np.iinfo(index).min
            given = [cases.data(dtype, shape, None), cases.given(at)]
            given.append(cases.data(dtype, update, None))
            for join in ("", "ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
                cases.joining("STABLEHLO_SCATTER", given, attrs, join and f"STABLEHLO_{join}")
    cases.check(target)


@each_target
def test_windows(target: str) -> None:
    cases = JoinCases()
    lists = [np.array(row, np.int64) for row in ((2, 3, 1), (2, 1, 2), (1, 2, 1))]
    for dtype in WIDTHS:
        given = [cases.data(dtype, (5, 7, 6), None), cases.data(dtype, (), None)]
        rows = [cases.constant(row) for row in lists]
        for function in ("ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"):
            cases.op("REDUCE_WINDOW", [*given, *rows], ReduceWindowAttrs(function))
        attrs = StablehloReduceWindowAttrs((1, 2, 2), (1, 2, 1))
        cases.joining("STABLEHLO_REDUCE_WINDOW", given, attrs, "STABLEHLO_ADD")
    cases.check(target)


def branching(branches: int) -> Graph:
    """A network that adds or subtracts as its first input says."""
    b = builder()
    index, x = b.input("index", DType.INT32, (1,)), b.input("x", DType.FLOAT32, (2, 3))
    made = b.op_many("STABLEHLO_CASE", [index, x], [Tensor("y", DType.FLOAT32, (2, 3))])
    for number in range(branches):
        inner = builder(f"branch{number}", 50 + number)
        given = inner.input("x", DType.FLOAT32, (2, 3))
        bias = inner.constant("bias", np.float32(number))
        inner.output(inner.op("ADD", [given, bias], name=f"sum{number}"))
        b.graph.ops[-1].regions.append(inner.build())
    return b.output(*made).build()


@each_target
@pytest.mark.parametrize("branches", [1, 3])
def test_cases_run_the_branch_of_a_number(target: str, branches: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for number in (-1, 0, 1, 2, 7):
        check_native(branching(branches), [np.array([number], np.int32), x], target)


def counting(kind: str) -> Graph:
    """A loop that doubles its second variable as often as its first one says."""
    condition = builder("condition", 50)
    count = condition.input("count", DType.INT32, ())
    condition.input("x", DType.FLOAT32, (3,))
    zero = condition.constant("zero", np.int32(0))
    condition.output(condition.op("GREATER", [count, zero], name="more"))
    turn = builder("turn", 60)
    count, x = turn.input("count", DType.INT32, ()), turn.input("x", DType.FLOAT32, (3,))
    one = turn.constant("one", np.int32(1))
    turn.output(
        turn.op("STABLEHLO_SUBTRACT", [count, one], name="left"),
        turn.op("STABLEHLO_ADD", [x, x], name="twice"),
    )
    b = builder()
    given = [b.input("count", DType.INT32, ()), b.input("x", DType.FLOAT32, (3,))]
    made = [Tensor("left", DType.INT32, ()), Tensor("y", DType.FLOAT32, (3,))]
    results = b.op_many(kind, given, made)
    b.graph.ops[-1].regions = [condition.build(), turn.build()]
    return b.output(*results).build()


def test_loops_turn_natively() -> None:
    given = [np.array(3, np.int32), np.array([1, -2, 0.5], np.float32)]
    _, doubled = run_native(counting("STABLEHLO_WHILE"), given)
    np.testing.assert_array_equal(doubled, np.array([8, -16, 4], np.float32))
