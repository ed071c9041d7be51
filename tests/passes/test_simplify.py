"""Ops that come to the same as simpler ones."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from tests.passes.harness import rewritten

F32 = DType.FLOAT32


def ints(b: Builder, *values: int) -> Tensor:
    return b.constant(f"i{values}", np.array(values, np.int32))


def data(b: Builder, *sizes: int | None) -> Tensor:
    return b.op("RELU", [b.input("x", F32, sizes)], name="t")


def strided(
    b: Builder, x: Tensor, *bounds: tuple[int, ...], begin: int = 0, end: int = 0, shrink: int = 0
) -> Tensor:
    attrs = StridedSliceAttrs(begin, end, shrink_axis_mask=shrink)
    return b.op("STRIDED_SLICE", [x, *(ints(b, *row) for row in bounds)], attrs)


def test_taking_everything_is_a_reshape() -> None:
    b = builder()
    x = data(b, 1, 2, 3)
    dropped = strided(b, x, (0, 0, 0), (1, 2, 3), (1, 1, 1), shrink=1)
    packed = b.op("PACK", [dropped], PackAttrs(1, 1), name="packed")
    moved = b.op("TRANSPOSE", [packed, ints(b, 1, 0, 2)], name="moved")
    (part,) = b.op_many("UNPACK", [moved], [Tensor("part", F32, (2, 3))], UnpackAttrs(1, 0))
    graph = b.output(part).build()
    assert rewritten(graph, "canonicalize-reshape") == ["RELU", *["RESHAPE"] * 4]
    assert rewritten(graph, "merge-reshapes") == ["RELU", "RESHAPE"]


def test_taking_a_part_and_moving_real_axes_are_none() -> None:
    b = builder()
    x = data(b, 2, 2, 3)
    part = strided(b, x, (0, 0, 0), (1, 2, 3), (1, 1, 1), shrink=1)
    graph = b.output(b.op("TRANSPOSE", [part, ints(b, 1, 0)], name="y")).build()
    kinds = rewritten(graph, "canonicalize-reshape")
    assert kinds == ["RELU", "STRIDED_SLICE", "TRANSPOSE"]


def test_slices_of_slices_join() -> None:
    b = builder()
    first = strided(b, data(b, 9, 4), (2, 0), (8, 4), (1, 1))
    second = b.op("SLICE", [first, ints(b, 1, 1), ints(b, 3, -1)], name="second")
    graph = b.output(second).build()
    assert rewritten(graph, "simplify-slices") == ["RELU", "SLICE"]
    starts, counts = (np.asarray(t.data).tolist() for t in graph.ops[1].inputs[1:] if t)
    assert (starts, counts) == ([3, 1], [3, 3])


@pytest.mark.parametrize("step", [2, -1])
def test_slices_with_steps_join_as_strided_ones(step: int) -> None:
    b = builder()
    bounds = ((0, 0), (9, 4), (2, 1)) if step > 0 else ((8, 0), (0, 4), (-2, 1))
    first = strided(b, data(b, 9, 4), *bounds, end=1)
    graph = b.output(strided(b, first, (0, 0), (4, 4), (1, step), begin=3, end=3)).build()
    assert rewritten(graph, "simplify-slices") == ["RELU", "STRIDED_SLICE"]


def test_slices_that_others_read_or_of_unknown_sizes_stay() -> None:
    b = builder()
    first = b.op("SLICE", [data(b, 9), ints(b, 2), ints(b, 5)], name="first")
    graph = b.output(b.op("SLICE", [first, ints(b, 1), ints(b, 2)], name="y"), first).build()
    assert rewritten(graph, "simplify-slices") == ["RELU", "SLICE", "SLICE"]
    b = builder()
    x = data(b, None, 4)
    graph = b.output(strided(b, x, (0, 0), (0, 2), (1, 1), end=1)).build()
    assert rewritten(graph, "simplify-slices") == ["RELU", "STRIDED_SLICE"]


def parts_of(b: Builder, x: Tensor, *sizes: int) -> list[Tensor]:
    made = [Tensor(f"part{i}", F32, (2, size)) for i, size in enumerate(sizes)]
    axis = b.constant("axis", np.int32(-1))
    return b.op_many("SPLIT_V", [x, ints(b, *sizes), axis], made, SplitAttrs(len(sizes)))


def test_equal_parts_are_a_split_and_unequal_ones_are_not() -> None:
    for sizes, kind in (((3, 3), "SPLIT"), ((2, 4), "SPLIT_V")):
        b = builder()
        graph = b.output(*parts_of(b, data(b, 2, 6), *sizes)).build()
        assert rewritten(graph, "simplify-splits") == ["RELU", kind]


@pytest.mark.parametrize(("order", "left"), [((0, 1), 2), ((1, 0), 4)])
def test_parts_that_are_joined_again_were_never_split(order: tuple[int, int], left: int) -> None:
    b = builder()
    parts = parts_of(b, data(b, 2, 6), 2, 4)
    joined = b.op("CONCATENATION", [parts[i] for i in order], ConcatenationAttrs(1), name="joined")
    graph = b.output(b.op("EXP", [joined], name="y")).build()
    assert len(rewritten(graph, "simplify-splits")) == left


def test_a_split_of_one_goes_and_what_is_read_of_a_joined_split_stays() -> None:
    b = builder()
    (only,) = parts_of(b, data(b, 2, 6), 6)
    made = [Tensor(f"row{i}", F32, (6,)) for i in range(2)]
    rows = b.op_many("UNPACK", [only], made, UnpackAttrs(2, 0))
    packed = b.op("PACK", rows, PackAttrs(2, 0), name="packed")
    graph = b.output(b.op("EXP", [packed], name="y"), b.op("EXP", [rows[0]], name="z")).build()
    assert rewritten(graph, "simplify-splits") == ["RELU", "UNPACK", "EXP", "EXP"]


@pytest.mark.parametrize(("fill", "kind"), [(0.0, "PAD"), (1.0, "PADV2")])
def test_padding_with_zeros_is_a_pad(fill: float, kind: str) -> None:
    b = builder()
    amounts = b.constant("amounts", np.array([[1, 0], [0, 2]], np.int32))
    value = b.constant("fill", np.array([fill], np.float32))
    graph = b.output(b.op("PADV2", [data(b, 2, 3), amounts, value], name="y")).build()
    assert rewritten(graph, "simplify-pads") == ["RELU", kind]


def cast(b: Builder, x: Tensor, result: DType) -> Tensor:
    return b.op("CAST", [x], CastAttrs(x.dtype.name, result.name), dtype=result)


@pytest.mark.parametrize(
    ("types", "left"),
    [
        ([DType.INT32, DType.INT64, DType.INT32], 2),
        ([DType.INT8, DType.FLOAT32, DType.INT32], 3),
        ([DType.UINT8, DType.INT16, DType.FLOAT32, DType.FLOAT64], 3),
        ([DType.INT32, DType.FLOAT32, DType.INT32], 4),
        ([DType.INT32, DType.INT8, DType.INT32], 4),
        ([DType.UINT8, DType.INT8, DType.INT32], 4),
    ],
)
def test_casts_join_where_the_first_keeps_every_value(types: list[DType], left: int) -> None:
    b = builder()
    x = b.op("RESHAPE", [b.input("x", types[0], (6,)), ints(b, 2, 3)], name="t")
    for dtype in types[1:]:
        x = cast(b, x, dtype)
    graph = b.output(b.op("RESHAPE", [x, ints(b, 6)], name="y")).build()
    assert len(rewritten(graph, "remove-casts")) == left


@pytest.mark.parametrize(("scale", "left"), [(0.25, 2), (0.5, 4)])
def test_stored_values_that_are_stored_again_as_they_were_stay_as_they_are(
    scale: float, left: int
) -> None:
    b = builder()
    quant = Quantization.per_tensor(0.25, 3)
    x = b.input("x", DType.INT8, (2, 3), quant)
    t = b.op("RELU", [x], name="t", quant=quant)
    real = b.op("DEQUANTIZE", [t], name="real", dtype=F32)
    again = b.op(
        "QUANTIZE", [real], name="q", dtype=DType.INT8, quant=Quantization.per_tensor(scale, 3)
    )
    graph = b.output(b.op("RESHAPE", [again, ints(b, 6)], name="y", quant=again.quant)).build()
    assert len(rewritten(graph, "remove-casts")) == left


def clamp(b: Builder, x: Tensor, kind: str, bound: float) -> Tensor:
    dtype = x.dtype.numpy
    return b.op(kind, [x, b.constant("bound", np.array(bound, dtype), x.quant)], quant=x.quant)


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ([("MAXIMUM", 0.0), ("MINIMUM", 6.0)], ["RELU6"]),
        ([("MINIMUM", 6.0), ("MAXIMUM", 0.0)], ["RELU6"]),
        ([("MAXIMUM", -1.0), ("MINIMUM", 1.0)], ["RELU_N1_TO_1"]),
        ([("MAXIMUM", 0.0)], ["RELU"]),
        ([("MAXIMUM", 0.0), ("MINIMUM", 5.0)], ["RELU", "MINIMUM"]),
        ([("MINIMUM", 0.0)], ["MINIMUM"]),
    ],
)
def test_clamps_become_activations(bounds: list[tuple[str, float]], left: list[str]) -> None:
    b = builder()
    x = b.input("x", F32, (2, 9))
    for kind, bound in bounds:
        x = clamp(b, x, kind, bound)
    assert rewritten(b.output(x).build(), "clamp-to-relu") == left


@pytest.mark.parametrize(("bound", "left"), [(21, ["RELU6"]), (20, ["RELU", "MINIMUM"])])
def test_stored_bounds_count(bound: int, left: list[str]) -> None:
    b = builder()
    x = b.input("x", DType.INT8, (64,), Quantization.per_tensor(0.25, -3))
    y = clamp(b, b.op("RELU", [x], name="t", quant=x.quant), "MINIMUM", bound)
    assert rewritten(b.output(y).build(), "clamp-to-relu") == left


@pytest.mark.parametrize("square", ["SQUARE", "MUL"])
def test_a_squared_difference_is_one_op(square: str) -> None:
    b = builder()
    x, y = b.input("x", F32, (2, 3)), b.input("y", F32, (3,))
    difference = b.op("SUB", [x, y], name="difference")
    operands = [difference] if square == "SQUARE" else [difference, difference]
    graph = b.output(b.op(square, operands, name="z")).build()
    assert rewritten(graph, "fuse-squared-difference") == ["SQUARED_DIFFERENCE"]


def test_a_difference_that_is_seen_or_scaled_otherwise_stays() -> None:
    b = builder()
    x, y = b.input("x", F32, (2, 3)), b.input("y", F32, (3,))
    difference = b.op("SUB", [x, y], name="difference")
    graph = b.output(b.op("MUL", [difference, y], name="z"), b.op("SQUARE", [difference])).build()
    assert rewritten(graph, "fuse-squared-difference") == ["SUB", "MUL", "SQUARE"]


def test_a_reciprocal_root_is_one_op() -> None:
    b = builder()
    root = b.op("SQRT", [b.op("EXP", [b.input("x", F32, (2, 3))], name="t")], name="root")
    one = b.constant("one", np.array(1, np.float32))
    graph = b.output(b.op("DIV", [one, root], name="y")).build()
    assert rewritten(graph, "fuse-rsqrt", tolerance=1e-6) == ["EXP", "RSQRT"]


def test_a_division_by_a_root_is_a_product() -> None:
    b = builder()
    root = b.op("SQRT", [b.op("EXP", [b.input("x", F32, (2, 1))], name="t")], name="root")
    graph = b.output(b.op("DIV", [b.input("y", F32, (2, 3)), root], name="z")).build()
    assert rewritten(graph, "fuse-rsqrt", tolerance=1e-6) == ["EXP", "RSQRT", "MUL"]
