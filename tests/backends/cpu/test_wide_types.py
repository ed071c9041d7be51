"""FLOAT64 and INT64 elements, natively as the records have them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.elementwise.body import not_printable
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.expr import Scalar, Var, call
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_target, each_width_of
from tests.backends.cpu.harness import run_native, runnable

EXACT = 1e-15
SHAPES = (
    ((1, 5, 7, 33), (1, 5, 7, 33)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 1), (1, 1, 4, 19)),
    ((257,), (1,)),
    ((7,), (7,)),
)
REDUCED = (
    ((3, 5, 300), (2,)),
    ((3, 5, 300), (0,)),
    ((3, 37, 7), (1,)),
    ((4, 6, 5, 7), (0, 2)),
    ((2, 3, 2, 3, 2, 3), (0, 2, 4)),
    ((4, 6, 5, 7), (0, 1, 2, 3)),
    ((40, 2), (1,)),
)
COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
SPECIAL = np.array(
    [
        *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 5e-324),
        *(2.0**51 + 0.5, 0.5 - 2.0**52, -(2.0**52) - 1, 1e300, -1e300, np.inf, -np.inf, np.nan),
    ]
)


def _pair(cases: Cases, first: tuple[int, ...], second: tuple[int, ...]) -> list[Tensor]:
    return [cases.data(DType.FLOAT64, first), cases.data(DType.FLOAT64, second)]


def _check_bits(cases: Cases, target: str) -> None:
    """Results with infinities and what is no number, which are equal to the last bit."""
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    for got, value in zip(run_native(graph, cases.inputs, chosen), wanted, strict=True):
        np.testing.assert_array_equal(got, value)


def arithmetic() -> Cases:
    """Sums, products, quotients, extremes, comparisons and choices of doubles."""
    cases = Cases()
    for first, second in SHAPES:
        for kind in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
            cases.op(kind, _pair(cases, first, second))
        cases.op("ADD", _pair(cases, first, second), AddAttrs("RELU6"))
        for kind in COMPARISONS:
            a, b = (cases.given(np.round(cases.values(DType.FLOAT64, n))) for n in (first, second))
            cases.op(kind, [a, b], dtype=DType.BOOL)
        condition = cases.given(cases.values(DType.FLOAT32, first) > 0)
        cases.op("SELECT_V2", [condition, *_pair(cases, first, second)], dtype=DType.FLOAT64)
    return cases


@each_target
def test_arithmetic_of_doubles_equals_the_record(target: str) -> None:
    arithmetic().check(target, threads=2, tolerance=EXACT)


@each_target
def test_functions_of_one_double_equal_the_record(target: str) -> None:
    cases = Cases()
    for values in (SPECIAL, cases.values(DType.FLOAT64, (3, 50))):
        for kind in ("ABS", "NEG", "FLOOR", "CEIL", "ROUND", "SIGN", "SQUARE"):
            cases.op(kind, [cases.given(values)])
        for kind in ("MAXIMUM", "MINIMUM"):
            cases.op(kind, [cases.given(values), cases.given(values[..., ::-1].copy())])
    _check_bits(cases, target)


@each_target
def test_casts_to_and_from_doubles_equal_the_record(target: str) -> None:
    cases = Cases()
    narrow = [cases.values(DType.FLOAT32, (5, 37)), np.arange(-70, 70, dtype=np.int32)]
    for values in (*narrow, narrow[1] > 3, narrow[1].astype(np.int64) << 40):
        cases.op("CAST", [cases.given(values)], CastAttrs(), dtype=DType.FLOAT64)
    for dtype in (DType.FLOAT32, DType.BOOL, DType.INT32, DType.INT64, DType.FLOAT64):
        doubles = cases.given(cases.values(DType.FLOAT64, (5, 37)) * 3)
        cases.op("CAST", [doubles], CastAttrs(), dtype=dtype)
    cases.check(target, tolerance=EXACT)


def reductions(dtype: DType) -> Cases:
    """Means, sums, extremes and products over all kinds of axes."""
    cases = Cases()
    for number, (shape, axes) in enumerate(REDUCED):
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
            values = cases.values(dtype, shape, 1.0)
            if dtype is DType.INT64 and kind == "MEAN":
                values >>= np.int64(16)
            wanted = cases.constant(np.array(axes, np.int32))
            cases.op(kind, [cases.given(values), wanted], ReducerAttrs(bool(number % 2)))
    return cases


@each_width_of("dtype", (DType.FLOAT64, DType.INT64), (DType.FLOAT64, DType.INT64))
def test_reductions_equal_the_record(dtype: DType, target: str) -> None:
    reductions(dtype).check(target, threads=2, tolerance=1e-12)


@pytest.mark.parametrize("kind", ["REDUCE_MAX", "REDUCE_MIN"])
def test_an_extreme_of_doubles_that_are_no_numbers_is_none(kind: str) -> None:
    cases = Cases()
    values = cases.values(DType.FLOAT64, (4, 40))
    values[1, 3], values[2, 37], values[3] = np.nan, np.nan, -np.inf
    for axis in (0, 1):
        wanted = cases.constant(np.array([axis], np.int32))
        cases.op(kind, [cases.given(values), wanted], ReducerAttrs())
    _check_bits(cases, "native")


@each_target
def test_positions_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in (DType.FLOAT64, DType.INT64):
        for shape, axis in (((3, 21), 1), ((4, 5, 37), 1), ((70, 3), 0), ((9,), 0)):
            values = cases.values(dtype, shape)
            for data in (values, np.clip(values, 0, 3), np.copysign(np.zeros(shape), values)):
                for kind in ("ARG_MAX", "ARG_MIN"):
                    wanted = cases.constant(np.array([axis], np.int32))
                    source = cases.given(data.astype(dtype.numpy))
                    cases.op(kind, [source, wanted], ArgAttrs("INT64"), dtype=DType.INT64)
    cases.check(target, threads=2)


@pytest.mark.parametrize("kept", [3, 50])
def test_the_largest_doubles_equal_the_record(kept: int) -> None:
    cases = Cases()
    count = cases.constant(np.int32(kept))
    values = cases.given(np.round(cases.values(DType.FLOAT64, (3, 90)), 1))
    made = [Tensor("values", DType.FLOAT64, (3, kept)), Tensor("at", DType.INT32, (3, kept))]
    cases.outputs.extend(cases.builder.op_many("TOPK_V2", [values, count], made))
    cases.check("native", tolerance=EXACT)


def test_functions_without_a_form_for_doubles_are_refused() -> None:
    cases = Cases()
    cases.op("CUSTOM", [cases.data(DType.FLOAT64, (3, 40))], custom_code="onnx.Erf")
    reason = LOWERINGS.choose(cases.graph().ops[0], parse_target("native"))
    assert isinstance(reason, str)
    assert "has no form for FLOAT64" in reason


def test_functions_of_doubles_that_vectors_lack_are_not_printed() -> None:
    reason = not_printable(Scalar(call("exp", Var(0, "f64"))))
    assert reason == "FLOAT64 has no vector form of exp"
