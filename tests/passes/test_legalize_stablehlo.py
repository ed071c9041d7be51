"""StableHLO kinds become others that compute the same bits; what they mean is worked out here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.errors import GraphError, LimitError
from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.limits import DEFAULT_LIMITS
from circlet.ops import get
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.guard import Guard
from circlet.ops.stablehlo.choose import CompareAttrs
from circlet.ops.stablehlo.dynamic import DynamicSliceAttrs
from circlet.ops.stablehlo.movement import (
    BroadcastAttrs,
    ConcatenateAttrs,
    IotaAttrs,
    SliceAttrs,
    TransposeAttrs,
)
from circlet.ops.stablehlo.pad import PadAttrs
from circlet.ops.stablehlo.products import ConvolutionAttrs, DotGeneralAttrs
from circlet.ops.stablehlo.reduce import ReduceAttrs, StablehloReduceWindowAttrs
from circlet.ops.stablehlo.sort import SortAttrs
from circlet.passes import make, pipeline
from tests.evaluate import evaluate
from tests.passes.harness import kinds_of, rewritten

F32, I32, BOOL = DType.FLOAT32, DType.INT32, DType.BOOL
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def body(kind: str, dtype: DType = F32) -> Graph:
    """A graph that joins two elements."""
    b = builder("body", 90)
    pair = [b.input(name, dtype, ()) for name in ("a", "b")]
    return b.output(b.op(kind, pair, name="joined")).build()


def one(
    kind: str,
    arrays: Sequence[np.ndarray],
    attrs: object = None,
    shape: tuple[int, ...] | None = None,
    dtype: DType | None = None,
    region: Graph | None = None,
) -> Graph:
    """A network of one StableHLO op over inputs like these arrays."""
    b: Builder = builder()
    given = [b.input(f"x{i}", DType.of(array), array.shape) for i, array in enumerate(arrays)]
    regions = [] if region is None else [region]
    if dtype is None and given:
        dtype = given[0].dtype
    y = b.op(f"STABLEHLO_{kind}", given, attrs, name="y", shape=shape or (), dtype=dtype)
    op = b.graph.ops[0]
    op.regions = regions
    if shape is None:
        y.shape = get(op).infer(op)[0].shape
    return b.output(y).build()


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


STARTS = [scalar(1, np.int32), scalar(9, np.int32), scalar(-4, np.int32)]
MEANINGS: dict[str, tuple[Graph, list[np.ndarray], np.ndarray, list[str]]] = {
    "reshape": (one("RESHAPE", [X], shape=(4, 6)), [X], X.reshape(4, 6), ["RESHAPE"]),
    "transpose": (
        one("TRANSPOSE", [X], TransposeAttrs((2, 0, 1))),
        [X],
        X.transpose(2, 0, 1),
        ["TRANSPOSE"],
    ),
    "slice": (
        one("SLICE", [X], SliceAttrs((0, 1, 0), (2, 3, 4), (1, 1, 3))),
        [X],
        X[0:2, 1:3, 0:4:3],
        ["STRIDED_SLICE"],
    ),
    "concatenate": (
        one("CONCATENATE", [X, X[:, :1]], ConcatenateAttrs(1)),
        [X, X[:, :1]],
        np.concatenate([X, X[:, :1]], 1),
        ["CONCATENATION"],
    ),
    "broadcast": (
        one("BROADCAST_IN_DIM", [X[0, :, 0]], BroadcastAttrs((1,)), (2, 3, 2)),
        [X[0, :, 0]],
        np.broadcast_to(X[0, :, :1], (2, 3, 2)),
        ["RESHAPE", "BROADCAST_TO"],
    ),
    "broadcast to crossed axes": (
        one("BROADCAST_IN_DIM", [X[0]], BroadcastAttrs((2, 0)), (4, 2, 3)),
        [X[0]],
        np.broadcast_to(X[0].T[:, None], (4, 2, 3)),
        ["TRANSPOSE", "RESHAPE", "BROADCAST_TO"],
    ),
    "dynamic slice": (
        one("DYNAMIC_SLICE", [X, *STARTS], DynamicSliceAttrs((1, 2, 2))),
        [X, *STARTS],
        X[1:2, 1:3, 0:2],
        ["PACK", "STABLEHLO_GATHER"],
    ),
    "dynamic update": (
        one("DYNAMIC_UPDATE_SLICE", [X, -X[:1, :1, :2], *STARTS]),
        [X, -X[:1, :1, :2], *STARTS],
        np.concatenate(
            [
                X[:1],
                np.concatenate([X[1:, :2], np.concatenate([-X[:1, :1, :2], X[1:, 2:, 2:]], 2)], 1),
            ]
        ),
        ["PACK", "DYNAMIC_UPDATE_SLICE"],
    ),
    "select": (
        one("SELECT", [X > 5, X, -X], dtype=F32),
        [X > 5, X, -X],
        np.where(X > 5, X, -X),
        ["SELECT_V2"],
    ),
    "convert": (
        one("CONVERT", [X - 3.5], dtype=I32),
        [X - np.float32(3.5)],
        np.trunc(X - 3.5).astype(np.int32),
        ["CAST"],
    ),
    "sum of axes": (
        one("REDUCE", [X, scalar(2)], ReduceAttrs((0, 2)), region=body("STABLEHLO_ADD")),
        [X, scalar(2)],
        X.sum((0, 2)) + 2,
        ["SUM", "ADD"],
    ),
    "largest": (
        one("REDUCE", [X, scalar(7)], ReduceAttrs((1,)), region=body("STABLEHLO_MAXIMUM")),
        [X, scalar(7)],
        np.maximum(X.max(1), 7),
        ["REDUCE_MAX", "MAXIMUM"],
    ),
    "any": (
        one(
            "REDUCE",
            [X > 20, np.array(False)],
            ReduceAttrs((1,)),
            region=body("STABLEHLO_OR", BOOL),
        ),
        [X > 20, np.array(False)],
        np.asarray((X > 20).any(1)),
        ["REDUCE_ANY", "LOGICAL_OR"],
    ),
    "windows": (
        one(
            "REDUCE_WINDOW",
            [X[0], scalar(0)],
            StablehloReduceWindowAttrs((2, 2), (1, 2), padding=(1, 0, 0, 0)),
            region=body("STABLEHLO_ADD"),
        ),
        [X[0], scalar(0)],
        np.array([[1, 5], [10, 18], [26, 34]], np.float32),
        ["STABLEHLO_PAD", "REDUCE_WINDOW"],
    ),
    "padding": (
        one("PAD", [X[0], scalar(9)], PadAttrs((0, 1), (1, 0), (0, 0))),
        [X[0], scalar(9)],
        np.pad(X[0], ((0, 1), (1, 0)), constant_values=9),
        ["STABLEHLO_PAD"],
    ),
    "dot": (
        one("DOT_GENERAL", [X, X.transpose(0, 2, 1)], DotGeneralAttrs((0,), (0,), (2,), (1,))),
        [X, X.transpose(0, 2, 1)],
        X @ X.transpose(0, 2, 1),
        ["RESHAPE", "RESHAPE", "BATCH_MATMUL", "RESHAPE"],
    ),
    "dot over first axes": (
        one("DOT_GENERAL", [X, X], DotGeneralAttrs((), (), (0, 1), (0, 1))),
        [X, X],
        np.tensordot(X, X, ((0, 1), (0, 1))),
        ["TRANSPOSE", "RESHAPE", "RESHAPE", "BATCH_MATMUL", "RESHAPE"],
    ),
    "exponential": (one("EXPONENTIAL", [X / 9]), [X / 9], np.exp(X / 9), ["EXP"]),
    "sum": (one("ADD", [X, X]), [X, X], X + X, ["ADD"]),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_a_kind_becomes_others_that_mean_the_same(case: str) -> None:
    graph, arrays, wanted, kinds = MEANINGS[case]
    np.testing.assert_allclose(evaluate(graph, arrays)[0], wanted, rtol=1e-6)
    assert rewritten(graph, "legalize-stablehlo") == kinds
    np.testing.assert_allclose(evaluate(graph, arrays)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [I32, F32, DType.UINT8])
def test_numbers_count_along_an_axis(dtype: DType) -> None:
    graph = one("IOTA", [], IotaAttrs(1), (2, 3), dtype)
    wanted = np.tile(np.arange(3), (2, 1)).astype(dtype.numpy)
    np.testing.assert_array_equal(evaluate(graph, [])[0], wanted)
    assert "STABLEHLO_IOTA" not in rewritten(graph, "legalize-stablehlo")
    np.testing.assert_array_equal(evaluate(graph, [])[0], wanted)


@pytest.mark.parametrize(("direction", "wanted"), [("LT", [1, 2, 2, 3]), ("GT", [3, 2, 2, 1])])
def test_rows_are_sorted_by_the_first_operand(direction: str, wanted: list[int]) -> None:
    b = builder("order", 90)
    given = [b.input(name, F32, ()) for name in ("a", "b")]
    given += [b.input(name, I32, ()) for name in ("c", "d")]
    flag = b.op("STABLEHLO_COMPARE", given[:2], CompareAttrs(direction), name="f")
    order = b.output(flag).build()
    b = builder()
    pair = [b.input("x", F32, (4,)), b.input("i", I32, (4,))]
    made = [Tensor("xs", F32, (4,)), Tensor("is", I32, (4,))]
    b.op_many("STABLEHLO_SORT", pair, made, SortAttrs(0, True))
    b.graph.ops[0].regions = [order]
    graph = b.output(*made).build()
    x, i = np.array([2, 3, 1, 2], np.float32), np.arange(4, dtype=np.int32)
    keys, places = evaluate(graph, [x, i])
    np.testing.assert_array_equal(keys, wanted)
    np.testing.assert_array_equal(places, [2, 0, 3, 1] if direction == "LT" else [1, 0, 3, 2])


def test_images_are_convolved_as_the_axes_say() -> None:
    attrs = ConvolutionAttrs(
        window_strides=(1, 2), padding=(1, 0, 0, 1), rhs_dilation=(1, 1),
        input_batch_dimension=0, input_feature_dimension=1, input_spatial_dimensions=(2, 3),
        kernel_output_feature_dimension=0, kernel_input_feature_dimension=1,
        kernel_spatial_dimensions=(2, 3), output_batch_dimension=0, output_feature_dimension=1,
        output_spatial_dimensions=(2, 3), feature_group_count=2,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 4, (2, 4, 3, 5)).astype(np.float32)
    w = rng.integers(-4, 4, (6, 2, 2, 2)).astype(np.float32)
    graph = one("CONVOLUTION", [x, w], attrs)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)))
    wanted = np.zeros((2, 6, 3, 3), np.float32)
    for n, o, i, j in np.ndindex(*wanted.shape):
        group = padded[n, o // 3 * 2 : o // 3 * 2 + 2, i : i + 2, 2 * j : 2 * j + 2]
        wanted[n, o, i, j] = (group * w[o]).sum()
    np.testing.assert_array_equal(evaluate(graph, [x, w])[0], wanted)


def test_the_levels_say_it_in_kinds_that_fuse() -> None:
    b = builder()
    x = b.input("x", F32, (2, 3))
    row = b.op("STABLEHLO_BROADCAST_IN_DIM", [b.input("r", F32, (3,))], BroadcastAttrs((1,)),
               name="r2", shape=(2, 3))  # fmt: skip
    y = b.op("STABLEHLO_MULTIPLY", [b.op("STABLEHLO_ADD", [x, row], name="s"), x], name="y")
    graph = b.output(y).build()
    pipeline("O2", check=True).run(graph)
    assert kinds_of(graph)[-2:] == ["ADD", "MUL"]


def test_bytes_that_wrap_stay_what_they_are() -> None:
    x = np.array([100, -100], np.int8)
    graph = one("ADD", [x, x])
    assert rewritten(graph, "legalize-stablehlo") == ["STABLEHLO_ADD"]
    np.testing.assert_array_equal(evaluate(graph, [x, x])[0], np.array([-56, 56], np.int8))


def far_apart() -> Graph:
    """Two elements of which a window sees one, with gigabytes between them."""
    attrs = StablehloReduceWindowAttrs((1,), (1 << 30,), (1 << 30,))
    given = [np.ones(2, np.float32), scalar(0)]
    return one("REDUCE_WINDOW", given, attrs, region=body("STABLEHLO_ADD"))


def test_what_is_put_between_elements_is_charged_before_it_is_taken() -> None:
    graph = far_apart()
    assert not make("legalize-stablehlo").run(graph)
    guard = Guard(limits=DEFAULT_LIMITS.with_memory(1 << 28))
    guard.budget = guard.limits.memory_budget(0)
    with pytest.raises(LimitError, match="what its windows slide over"):
        evaluate_graph(graph, [np.ones(2, np.float32), scalar(0)], guard)


def test_sizes_that_a_run_tells_are_held_against_the_options() -> None:
    b = builder()
    x = b.input("x", F32, (None,))
    graph = b.output(b.op("STABLEHLO_SLICE", [x], SliceAttrs((0,), (3,), (2,)), name="y")).build()
    assert not make("legalize-stablehlo").run(graph)
    np.testing.assert_array_equal(evaluate(graph, [np.arange(5, dtype=np.float32)])[0], [0, 2])
    with pytest.raises(GraphError, match="slices must lie within the input"):
        evaluate(graph, [np.arange(2, dtype=np.float32)])
