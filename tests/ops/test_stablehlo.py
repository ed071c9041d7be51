"""StableHLO kinds that LiteRT's interpreter runs, beside its kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops import NoAttrs, get
from circlet.ops.build import builder
from circlet.ops.stablehlo.indexed import GatherAttrs, ScatterAttrs
from circlet.ops.stablehlo.pad import PadAttrs
from circlet.ops.stablehlo.random import RngAttrs
from circlet.ops.stablehlo.reduce import ReduceWindowAttrs, StablehloReduceWindowAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    make_op,
    own_result,
    peer_results,
    tensor,
)

RNG = np.random.default_rng(5)
NUMPY = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64", "bool")  # fmt: skip
ODD = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e-40], np.float32)


def values(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Seeded elements over the whole range of a type; floats with NaN and infinities first."""
    rng, dtype = np.random.default_rng(seed), np.dtype(name)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        made = (rng.standard_normal(shape) * 3).astype(dtype)
        if made.size >= 64:
            pairs = np.meshgrid(ODD, ODD)[seed % 2].reshape(-1)
            made.reshape(-1)[:64] = pairs.astype(dtype)
        return made
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def body(kind: str, dtype: DType) -> Graph:
    """A graph that joins two elements; "" gives the second."""
    b = builder("body", 90)
    pair = [b.input(name, dtype, ()) for name in ("a", "b")]
    return b.output(b.op(kind, pair, name="joined") if kind else pair[1]).build()


ARITHMETIC = [
    *((kind, name) for kind in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM") for name in NUMPY),
    *(("AND", name) for name in NUMPY if not name.startswith("float")),
]


@pytest.mark.parametrize(("kind", "name"), ARITHMETIC)
def test_arithmetic_is_litert_s(kind: str, name: str) -> None:
    first, second = values(name, (8, 11)), values(name, (8, 11), 1)
    dtype = DType.of(first)
    op = make_op(f"STABLEHLO_{kind}", [tensor("a", first), tensor("b", second)], (dtype, None))
    (wanted,) = peer_results(op, [first, second])
    np.testing.assert_array_equal(own_result(op, [first, second]), wanted)


@pytest.mark.parametrize("name", ["int8", "int16", "int32"])
def test_shifts_are_litert_s(name: str) -> None:
    first = values(name, (6, 9))
    counts = RNG.integers(0, first.itemsize * 8, first.shape).astype(name)
    given = [tensor("a", first), tensor("b", counts)]
    assert_agrees(make_op("STABLEHLO_SHIFT_LEFT", given, (DType.of(first), None)), [first, counts])


def test_counts_beyond_the_bits_shift_everything_out() -> None:
    first, counts = np.full(4, 3, np.int32), np.array([0, 31, 32, -1], np.int32)
    given = [tensor("a", first), tensor("b", counts)]
    op = make_op("STABLEHLO_SHIFT_LEFT", given, (DType.INT32, None))
    np.testing.assert_array_equal(own_result(op, [first, counts]), [3, -(2**31), 0, 0])


PADS = [
    ((1, 0, 2), (0, 3, 1), (0, 0, 0)),
    ((0, 0, 0), (0, 0, 0), (2, 1, 0)),
    ((-1, 2, -2), (1, -1, -1), (1, 0, 3)),
    ((-3, -2, 5), (2, 0, -4), (2, 2, 1)),
]


@pytest.mark.parametrize("amounts", PADS)
@pytest.mark.parametrize("name", ["float32", "int8", "int64", "bool"])
def test_paddings_are_litert_s(amounts: tuple[tuple[int, ...], ...], name: str) -> None:
    x, value = values(name, (3, 4, 5)), values(name, (), 3)
    given = [tensor("x", x), tensor("value", value)]
    op = make_op("STABLEHLO_PAD", given, (DType.of(x), None), PadAttrs(*amounts))
    (wanted,) = peer_results(op, [x, value])
    np.testing.assert_array_equal(own_result(op, [x, value]), wanted)


@pytest.mark.parametrize("steps", [(1, 1, 1), (2, 1, 3), (1, 4, 1), (3, 2, 2)])
@pytest.mark.parametrize("name", ["float32", "int8", "int64"])
@pytest.mark.parametrize("constant", [True, False])
def test_dilations_are_litert_s(steps: tuple[int, ...], name: str, constant: bool) -> None:
    x, value, by = values(name, (3, 4, 2)), values(name, (), 3), np.array(steps, np.int32)
    given = [tensor("x", x), tensor("by", by, constant=constant), tensor("value", value)]
    op = make_op("DILATE", given, (DType.of(x), None))
    fed = [x, value] if constant else [x, by, value]
    (wanted,) = peer_results(op, fed)
    result = own_result(op, fed) if constant else get(op).evaluate(op, fed)[0]
    np.testing.assert_array_equal(result, wanted)


FUNCTIONS = ("ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY")
BODIES = {
    "ADD": "STABLEHLO_ADD",
    "MUL": "STABLEHLO_MULTIPLY",
    "MINIMUM": "STABLEHLO_MINIMUM",
    "MAXIMUM": "STABLEHLO_MAXIMUM",
    "ALL": "LOGICAL_AND",
    "ANY": "LOGICAL_OR",
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["float32", "int8", "int16", "int32", "int64", "uint8"])
def test_windows_are_litert_s(function: str, name: str) -> None:
    x, start = values(name, (5, 7, 6)), np.array(1, name)
    lists = [np.array(row, np.int64) for row in ((2, 3, 1), (2, 1, 2), (1, 2, 1))]
    given = [tensor("x", x), tensor("start", start)]
    given += [tensor(f"list{i}", row, constant=True) for i, row in enumerate(lists)]
    attrs = ReduceWindowAttrs(function)
    op = make_op("REDUCE_WINDOW", given, (DType.of(x), None), attrs)
    assert op.outputs[0].shape == (2, 3, 3)
    np.testing.assert_array_equal(own_result(op, [x, start]), peer_results(op, [x, start])[0])


def stablehlo_windows(
    x: np.ndarray, start: np.ndarray, function: str, attrs: StablehloReduceWindowAttrs
) -> Op:
    """A STABLEHLO_REDUCE_WINDOW."""
    given, dtype = [tensor("x", x), tensor("start", start)], DType.of(x)
    op = make_op("STABLEHLO_REDUCE_WINDOW", given, (dtype, None), attrs)
    op.regions = [body(BODIES[function], dtype)]
    return op


JOINED = [
    *((function, name) for function in FUNCTIONS[:4] for name in ("float32", "int8", "int32")),
    ("ALL", "bool"),
    ("ANY", "bool"),
]


@pytest.mark.parametrize(("function", "name"), JOINED)
def test_stablehlo_windows_are_litert_s(function: str, name: str) -> None:
    x, start = values(name, (4, 5, 6)), np.array(1, name)
    attrs = StablehloReduceWindowAttrs(
        (2, 2, 3), (1, 2, 1), (2, 1, 1), (1, 2, 1), (1, 0, 0, 2, -1, 1)
    )
    op = stablehlo_windows(x, start, function, attrs)
    np.testing.assert_array_equal(own_result(op, [x, start]), peer_results(op, [x, start])[0])


def test_windows_that_say_sizes_alone_are_litert_s() -> None:
    x, start = values("float32", (4, 5)), np.array(0, np.float32)
    op = stablehlo_windows(x, start, "MAXIMUM", StablehloReduceWindowAttrs((2, 3)))
    assert op.outputs[0].shape == (3, 3)
    assert_agrees(op, [x, start])


def test_a_body_of_two_steps_is_refused() -> None:
    op = stablehlo_windows(np.zeros((3,), np.float32), np.zeros((), np.float32), "ADD",
                           StablehloReduceWindowAttrs((2,)))  # fmt: skip
    b = builder("body", 90)
    pair = [b.input(name, DType.FLOAT32, ()) for name in ("a", "b")]
    twice = b.op("STABLEHLO_ADD", [b.op("STABLEHLO_ADD", pair, name="s"), pair[1]], name="t")
    op.regions = [b.output(twice).build()]
    assert broken_rule(op) == "body"


GATHERS = {
    "rows": (GatherAttrs((1,), (0,), (0,), 1, (1, 5)), (4, 5), (3, 1)),
    "windows": (GatherAttrs((2, 3), (0,), (1, 0), 2, (1, 2, 2)), (3, 4, 2), (2, 3, 2)),
    "single indices": (GatherAttrs((0, 2), (1,), (1,), 1, (2, 1, 3)), (4, 6, 5), (7,)),
    "vectors first": (GatherAttrs((1, 2), (), (0, 1), 0, (2, 3)), (6, 5), (2, 4)),
}


@pytest.mark.parametrize("case", GATHERS)
@pytest.mark.parametrize("name", ["float32", "int8", "int64", "bool"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_gathers_are_litert_s(case: str, name: str, index: str) -> None:
    attrs, shape, places = GATHERS[case]
    x, at = values(name, shape), RNG.integers(-3, 9, places).astype(index)
    given = [tensor("x", x), tensor("at", at)]
    op = make_op("STABLEHLO_GATHER", given, (DType.of(x), None), attrs)
    if case == "single indices":  # LiteRT reads behind the list of sizes there
        wanted = x[:, np.clip(at, 0, 5)].swapaxes(0, 1)[:, :, :3].swapaxes(0, 1)
        np.testing.assert_array_equal(own_result(op, [x, at]), wanted[:2])
        return
    np.testing.assert_array_equal(own_result(op, [x, at]), peer_results(op, [x, at])[0])


SCATTERS = {
    "rows": (ScatterAttrs(False, (1,), (0,), (0,), 1), (6, 4), (5, 1), (5, 4)),
    "elements": (ScatterAttrs(False, (), (0, 1), (1, 0), 1), (4, 5), (9, 2), (9,)),
    "windows": (ScatterAttrs(False, (2, 3), (0,), (1, 0), 2), (3, 4, 2), (2, 3, 2), (2, 3, 2, 2)),
    "windows first": (ScatterAttrs(False, (0,), (0,), (0,), 0), (5, 3), (1, 4), (3, 4)),
}


def scatter(case: str, kind: str, x: np.ndarray, at: np.ndarray, updates: np.ndarray) -> Op:
    """A STABLEHLO_SCATTER of a body's kind."""
    given = [tensor("x", x), tensor("at", at), tensor("u", updates)]
    op = make_op("STABLEHLO_SCATTER", given, (DType.of(x), None), SCATTERS[case][0])
    op.regions = [body(kind, DType.of(x))]
    return op


@pytest.mark.parametrize("case", SCATTERS)
@pytest.mark.parametrize("kind", ["", *(BODIES[f] for f in FUNCTIONS[:4])])
@pytest.mark.parametrize("name", ["float32", "int8", "int32", "bool"])
def test_scatters_are_litert_s(case: str, kind: str, name: str) -> None:
    _, shape, places, update = SCATTERS[case]
    x, updates = values(name, shape), values(name, update, 1)
    at = RNG.integers(-2, 7, places).astype(np.int32)
    op, fed = scatter(case, kind, x, at, updates), [x, at, updates]
    np.testing.assert_array_equal(own_result(op, fed), peer_results(op, fed)[0])


@pytest.mark.parametrize("algorithm", ["DEFAULT", "PHILOX", "THREEFRY"])
@pytest.mark.parametrize("words", [2, 3])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT32, DType.UINT64])
def test_random_bits_are_litert_s(algorithm: str, words: int, dtype: DType) -> None:
    state = values("uint64", (words,), 4)
    state[1] = np.uint64(0xFFFFFFFE)  # the counter's words carry
    results = [Tensor("state", DType.UINT64, (words,)), Tensor("bits", dtype, (3, 5))]
    op = make_op("STABLEHLO_RNG_BIT_GENERATOR", [tensor("s", state)], (DType.UINT64, None),
                 RngAttrs(algorithm), outputs=results)  # fmt: skip
    if algorithm == "THREEFRY" and words == 3:
        assert broken_rule(op) == "state"
        return
    for got, want in zip(get(op).evaluate(op, [state]), peer_results(op, [state]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("number", [-1, 0, 1, 2, 5])
def test_cases_are_litert_s(number: int) -> None:
    x, index = values("float32", (2, 3)), np.array([number], np.int32)
    given = [tensor("index", index), tensor("x", x)]
    branches = [branch(bias) for bias in (1, 20, 300)]
    op = Op("STABLEHLO_CASE", [*given], [Tensor("y", DType.FLOAT32, (2, 3))], NoAttrs(),
            Origin.of(0, "y"), regions=branches)  # fmt: skip
    np.testing.assert_array_equal(own_result(op, [index, x]), peer_results(op, [index, x])[0])


def branch(bias: float) -> Graph:
    """A graph that adds a number."""
    b = builder(f"branch {bias}", 90)
    given = b.input("x", DType.FLOAT32, (2, 3))
    return b.output(b.op("ADD", [given, b.constant("bias", np.float32(bias))], name="s")).build()
