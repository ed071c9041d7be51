"""Native comparisons, logic and number functions give what the records give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.math import FakeQuantAttrs
from circlet.ops.onnx.record import OnnxAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import run_native, runnable

Pair = tuple[tuple[int, ...], tuple[int, ...]]
SHAPES: tuple[Pair, ...] = (
    ((3, 50), (3, 50)),
    ((2, 3, 4, 5), (5,)),
    ((4, 1), (37,)),
    ((257,), (1,)),
)
COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
SECOND = Quantization.per_tensor(0.023, 11)
NUMBERS = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.INT64)
WHOLE = ("DIV", "FLOOR_DIV", "FLOOR_MOD", "POW")


def _each_with_some(kinds: Sequence[str]) -> Iterator[tuple[str, Pair]]:
    """The first kind with all pairs of shapes, any other with one, in turn.

    How shapes are broadcast is one piece of code for all kinds, and each pair is a kernel.
    """
    yield from ((kinds[0], shapes) for shapes in SHAPES)
    yield from zip(kinds[1:], cycle(SHAPES), strict=False)


@each_target
@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparisons_equal_the_records(dtype: DType, target: str) -> None:
    cases = Cases()
    for kind, (first, second) in _each_with_some(COMPARISONS):
        small = dtype in (DType.INT32, DType.INT64, DType.FLOAT32)
        values = [cases.values(dtype, shape) for shape in (first, second)]
        a, b = (v % 3 if small and not dtype.is_float else np.round(v) for v in values)
        quants = (Quantization.per_tensor(0.05, 3), SECOND)
        given = [None if small else quant for quant in quants]
        pair = [cases.given(v.astype(dtype.numpy), q) for v, q in zip((a, b), given, strict=True)]
        cases.op(kind, pair, dtype=DType.BOOL)
    cases.check(target)


@each_target
def test_quotients_of_long_integers_equal_the_records(target: str) -> None:
    cases, random = Cases(), np.random.default_rng(11)
    ends = np.array([2**63 - 1, -(2**63), 2**62, 2**53 + 1, -(2**53) - 1, 3, -3, 1, -1, 0, 7])
    bits = random.integers(1, 63, 600)
    numbers = random.integers(-(2**63), 2**63 - 1, 600) >> bits
    near = numbers[:300] * random.integers(-(2**20), 2**20, 300) + random.integers(-1, 2, 300)
    x = np.concatenate([np.repeat(ends, 11), numbers, near]).astype(np.int64)
    y = np.concatenate([np.tile(ends, 11), random.permutation(numbers), numbers[:300]])
    y = np.where(y == 0, 5, y)
    y[: 11 * 11][np.tile(ends, 11) == 0] = -5
    pair = [cases.given(x), cases.given(y)]
    with np.errstate(over="ignore"):
        cases.op("FLOOR_MOD", pair)
        cases.op("CUSTOM", pair, OnnxAttrs((), 14), custom_code="onnx.Div")
        cases.check(target)


@each_target
def test_logic_equals_the_records(target: str) -> None:
    cases = Cases()
    a, b = (cases.given(cases.values(DType.INT8, (5, 21)) > 0) for _ in range(2))
    for kind in ("LOGICAL_AND", "LOGICAL_OR", "EQUAL", "NOT_EQUAL"):
        cases.op(kind, [a, b], dtype=DType.BOOL)
    cases.op("LOGICAL_NOT", [a], dtype=DType.BOOL)
    cases.check(target)


@each_target
def test_float_functions_equal_the_records(target: str) -> None:
    cases = Cases()
    edges = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e5, -1e6, 1e-30], np.float32)
    bits = np.random.default_rng(5).integers(127 << 23, 255 << 23, 300, np.uint32)
    largest = np.array([2**30, 3.4028235e38, -(2.0**127), 1.1e9, 16367173 * 2.0**72], np.float32)
    huge = np.concatenate([bits.view(np.float32), largest])
    for values in (cases.values(DType.FLOAT32, (3, 77), 30), edges, huge):
        x = cases.given(values)
        for kind in ("SIN", "COS", "CEIL", "ROUND", "SIGN"):
            cases.op(kind, [x])
        cases.op("FAKE_QUANT", [x], FakeQuantAttrs(-7.3, 11.1, 8, False))
    for kind, (first, second) in _each_with_some(("POW", "ATAN2", "FLOOR_DIV", "FLOOR_MOD")):
        a, b = cases.data(DType.FLOAT32, first), cases.data(DType.FLOAT32, second)
        cases.op(kind, [cases.op("ABS", [a]) if kind == "POW" else a, b])
    a = cases.data(DType.FLOAT32, (3, 50))
    positive = cases.op("ABS", [a])
    for exponent in (2, 3, 4, -1, 0.5, -0.5, 1.7):
        cases.op("POW", [positive, cases.constant(np.float32(exponent))])
    cases.op("ADD_N", [a, a, a, a])
    cases.check(target)


@each_target
def test_whole_numbers_divide_as_the_records_do(target: str) -> None:
    cases = Cases()
    lowest = np.iinfo(np.int32).min
    a = np.array([7, -7, 0, lowest, lowest, 2147483647, -1, 5, 1 << 30], np.int32)
    b = np.array([2, 3, 5, -1, 1, -1, 2147483647, 0, lowest], np.int32)
    pairs = [(a, b), (cases.values(DType.INT32, (99,)), cases.values(DType.INT32, (99,)) % 50)]
    for left, right in pairs:
        operands = [cases.given(left), cases.given(right)]
        for kind in WHOLE:
            cases.op(kind, operands)
    cases.check(target)


@each_target
def test_64_bit_arithmetic_equals_the_records(target: str) -> None:
    cases = Cases()
    for kind, (first, second) in _each_with_some(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")):
        a, b = cases.data(DType.INT64, first, None), cases.data(DType.INT64, second, None)
        cases.op(kind, [a, b])
    cases.op("NEG", [cases.data(DType.INT64, (7, 3), None)])
    cases.check(target)


@each_target
def test_special_values_follow_c(target: str) -> None:
    cases = Cases()
    inf = np.inf
    base = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, inf, -inf, 1e-40, -8], np.float32)
    power = np.array([0, 1, -1, 2, 3, -3, 0.5, -0.5, inf, -inf, 127], np.float32)
    with np.errstate(all="ignore"):
        valid = np.isfinite(np.power(base[:, None], power[None]))
    rows, columns = np.nonzero(valid)
    cases.op("POW", [cases.given(base[rows]), cases.given(power[columns])])
    points = np.array([0, -0.0, 1, -1, inf, -inf, 1e-30, 3], np.float32)
    cases.op("ATAN2", [cases.given(points[:, None]), cases.given(points)])
    a = np.array([1e38, 1e30, 3e-40, -1e20, 5, inf], np.float32)
    b = np.array([1e-38, 3e-7, 1.7, 0.3, inf, 3], np.float32)
    finite = np.isfinite(np.fmod(a, b, where=np.isfinite(a), out=np.full(6, inf, np.float32)))
    cases.op("FLOOR_MOD", [cases.given(a[finite]), cases.given(b[finite])])
    cases.check(target)


def _ulps(got: np.ndarray, exact: np.ndarray) -> float:
    step = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float((np.abs(got - exact) / step).max())


@each_target
def test_powers_and_angles_keep_their_stated_bounds(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    random = np.random.default_rng(9)
    base = np.exp(random.uniform(-5, 5, 20_000)).astype(np.float32)
    power, side = (random.uniform(-15, 15, 20_000).astype(np.float32) for _ in range(2))
    cases = Cases()
    a, b, c = (cases.given(values) for values in (base, power, side))
    cases.op("POW", [a, b])
    cases.op("ATAN2", [b, c])
    powers, angles = run_native(cases.graph(), cases.inputs, target)
    wide = [values.astype(np.float64) for values in (base, power, side)]
    exact = wide[0] ** wide[1]
    kept = (exact > 1e-37) & (exact < 3e38)
    assert _ulps(powers[kept], exact[kept]) <= 2
    assert _ulps(angles, np.arctan2(wide[1], wide[2])) <= 4
