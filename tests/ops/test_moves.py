"""Ops that move elements, beside LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType, Op, Origin, Shape, Tensor
from circlet.ops import find
from circlet.ops.blocks import DepthAttrs
from circlet.ops.facts import ShapeAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.order import CumsumAttrs, OneHotAttrs, ReverseSequenceAttrs
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs, strided_slices
from tests.ops.one_op import assert_agrees, broken_rule, make_op, peer_result, tensor

F32, I8, I32, I64 = DType.FLOAT32, DType.INT8, DType.INT32, DType.INT64
TYPES = [F32, I8, DType.UINT8, I32, I64]
QUANT = (0.1, 3)


def values(dtype: DType, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype.numpy)


def const(numbers: object, dtype: type = np.int32) -> Tensor:
    return tensor("c", np.asarray(numbers, dtype), constant=True)


def agrees(
    kind: str,
    data: np.ndarray,
    rest: Sequence[Tensor],
    attrs: object = None,
    dtype: DType | None = None,
) -> None:
    """Compare an op of one run-time operand."""
    kept = QUANT if data.dtype.itemsize == 1 and data.dtype.kind in "iu" else None
    out = dtype or DType.of(data)
    inputs = [tensor("x", data, kept), *rest]
    version = 2 if kind == "BROADCAST_TO" else 1
    assert_agrees(make_op(kind, inputs, (out, kept), attrs, version), [data])


@pytest.mark.parametrize("dtype", TYPES)
def test_slices_agree(dtype: DType) -> None:
    data = values(dtype, (2, 5, 3))
    agrees("SLICE", data, [const([0, 1, 1]), const([2, -1, 2])])
    agrees("SLICE", data, [const([1, 0, 0], np.int64), const([1, 5, -1], np.int64)])


@pytest.mark.parametrize("mask", range(8))
@pytest.mark.parametrize("steps", [(1, 1, 1), (1, 2, -1), (-1, -2, 1), (2, 3, 1)])
@pytest.mark.parametrize("bounds", [((0, 1, 2), (2, 5, 3)), ((-1, 4, -9), (9, -4, 9))])
def test_strided_slices_agree(
    mask: int, steps: tuple[int, ...], bounds: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    data = values(F32, (2, 5, 3))
    lists = [const(bounds[0]), const(bounds[1]), const(steps)]
    for attrs in (StridedSliceAttrs(begin_mask=mask), StridedSliceAttrs(mask, mask ^ 7)):
        slices = strided_slices(attrs, data.shape, *bounds, steps)
        assert slices is not None
        if 0 not in slices.shape:
            agrees("STRIDED_SLICE", data, lists, attrs)


@pytest.mark.parametrize(
    ("begin", "end", "steps", "attrs"),
    [
        ((1, 0, 2), (0, 0, 3), (1, 1, 1), StridedSliceAttrs(2, 2, shrink_axis_mask=1)),
        ((-1, -2), (0, 0), (1, 1), StridedSliceAttrs(shrink_axis_mask=3)),
        ((0, 1), (0, 2), (1, 1), StridedSliceAttrs(ellipsis_mask=1)),
        ((0, 0, 1), (2, 0, 2), (1, 1, 1), StridedSliceAttrs(ellipsis_mask=2)),
        ((0, 0, 1), (2, 0, 2), (1, 1, 1), StridedSliceAttrs(new_axis_mask=2)),
        ((0, 0, 1), (0, 0, 2), (1, 1, 1), StridedSliceAttrs(ellipsis_mask=1, new_axis_mask=2)),
        ((0, -3, 0), (2, 2, 3), (1, 1, 1), StridedSliceAttrs(offset=True)),
    ],
)
def test_axes_are_dropped_and_added_as_by_the_peer(
    begin: tuple[int, ...], end: tuple[int, ...], steps: tuple[int, ...], attrs: object
) -> None:
    agrees("STRIDED_SLICE", values(F32, (2, 5, 3)), [const(begin), const(end), const(steps)], attrs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("axis", "batch"), [(0, 0), (1, 0), (-1, 0), (1, 1)])
def test_gathers_agree(dtype: DType, axis: int, batch: int) -> None:
    data = values(dtype, (2, 5, 3))
    indices = const([[2, 0], [1, 1]] if not batch else [[4, 0], [3, 3]])
    if axis == 0:
        indices = const([1, 0, 1])
    agrees("GATHER", data, [indices], GatherAttrs(axis, batch))


@pytest.mark.parametrize("dtype", TYPES)
def test_gathers_by_vectors_agree(dtype: DType) -> None:
    data = values(dtype, (2, 5, 3))
    agrees("GATHER_ND", data, [const([[0], [1], [1]])])
    agrees("GATHER_ND", data, [const([[[0, 4], [1, 2]]])])
    agrees("GATHER_ND", data, [const([[1, 4, 2]], np.int64)])


def test_scatters_add_repeated_updates() -> None:
    indices, sizes = const([[1, 0], [3, 2], [1, 0]]), const([4, 3, 5])
    for dtype in (F32, I32, I64):
        data = values(dtype, (3, 5))
        op = make_op("SCATTER_ND", [indices, tensor("x", data), sizes], (dtype, None))
        assert_agrees(op, [data])


def test_lookups_agree() -> None:
    table = const(values(F32, (10, 4)), np.float32)
    agrees("EMBEDDING_LOOKUP", np.array([3, 0, 9], np.int32), [table], dtype=F32)


def test_updates_are_placed_as_by_the_peer() -> None:
    data = values(F32, (2, 6, 3))
    for starts in ([0, 0, 0], [1, 3, 1], [-4, 9, 0]):
        rest = [const(values(F32, (1, 2, 2), 1), np.float32), const(starts)]
        agrees("DYNAMIC_UPDATE_SLICE", data, rest)


@pytest.mark.parametrize("dtype", TYPES)
def test_choices_agree(dtype: DType) -> None:
    sides = [const(values(dtype, (3, 2), seed), dtype.numpy.type) for seed in (1, 2)]
    for side in sides:
        side.quant = tensor("q", np.zeros(1), QUANT).quant if dtype.bits == 8 else None
    kept = QUANT if dtype.bits == 8 else None
    for kind, shape in (("SELECT", (3, 2)), ("SELECT", (3,)), ("SELECT_V2", (1, 2))):
        condition = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
        op = make_op(kind, [tensor("x", condition), *sides], (dtype, kept))
        assert_agrees(op, [condition])


@pytest.mark.parametrize("dtype", TYPES)
def test_repeats_agree(dtype: DType) -> None:
    data = values(dtype, (2, 1, 3))
    agrees("TILE", data, [const([2, 3, 1])])
    agrees("TILE", data, [const([1 << 29, 0, 1])])
    agrees("BROADCAST_TO", data, [const([4, 2, 5, 3])])
    if dtype in (F32, I32, I64):
        agrees("ZEROS_LIKE", data, [])


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
@pytest.mark.parametrize("dtype", TYPES)
def test_mirrors_agree(mode: str, dtype: DType) -> None:
    amounts = const([[1, 0], [2, 4], [0, 2]])
    agrees("MIRROR_PAD", values(dtype, (2, 5, 3)), [amounts], MirrorPadAttrs(mode))


@pytest.mark.parametrize("axes", [[0], [2], [1, 2]])
def test_reversals_agree(axes: list[int]) -> None:
    agrees("REVERSE_V2", values(F32, (2, 5, 3)), [const(axes)])


def test_reversed_sequences_agree() -> None:
    data = values(F32, (2, 5, 3))
    agrees("REVERSE_SEQUENCE", data, [const([3, 5])], ReverseSequenceAttrs(1, 0))
    agrees("REVERSE_SEQUENCE", data, [const([0, 1, 2])], ReverseSequenceAttrs(1, 2))


@pytest.mark.parametrize("dtype", [F32, I32, I64])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_agree(dtype: DType, exclusive: bool, reverse: bool) -> None:
    for axis in (0, -1):
        attrs = CumsumAttrs(exclusive, reverse)
        agrees("CUMSUM", values(dtype, (2, 5, 3)), [const(axis)], attrs)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hots_agree(axis: int) -> None:
    rest = [const(4), const(5.0, np.float32), const(-1.0, np.float32)]
    agrees("ONE_HOT", np.array([[0, 3, 4], [-1, 1, 2]], np.int32), rest, OneHotAttrs(axis), F32)


@pytest.mark.parametrize("dtype", [F32, I8, I32])
def test_block_moves_agree(dtype: DType) -> None:
    data = values(dtype, (2, 4, 6, 3))
    agrees("SPACE_TO_BATCH_ND", data, [const([2, 3]), const([[1, 1], [0, 3]])])
    agrees("BATCH_TO_SPACE_ND", data, [const([1, 2]), const([[1, 0], [0, 3]])])
    agrees("SPACE_TO_BATCH_ND", values(dtype, (2, 5, 3)), [const([2]), const([[1, 0]])])
    agrees("SPACE_TO_DEPTH", data, [], DepthAttrs(2))
    agrees("DEPTH_TO_SPACE", values(dtype, (1, 2, 3, 8)), [], DepthAttrs(2))


def test_facts_agree() -> None:
    data = values(F32, (2, 5, 3))
    agrees("SHAPE", data, [], ShapeAttrs("INT64"), I64)
    agrees("RANK", data, [], None, I32)
    agrees("MATRIX_DIAG", data, [])
    agrees("MATRIX_SET_DIAG", data, [const(values(F32, (2, 3), 1), np.float32)])


def test_parts_are_packed_as_by_the_peer() -> None:
    data = values(F32, (2, 3))
    for axis in (0, 1, -1):
        rest = [const(values(F32, (2, 3), 1), np.float32)]
        agrees("PACK", data, rest, PackAttrs(2, axis))


@pytest.mark.parametrize(("limit", "step"), [(100, 0.1), (-50, -0.3), (1.3, 0.1), (1.7, 0.1)])
def test_ranges_add_step_by_step(limit: float, step: float) -> None:
    first = np.array(1, np.float32)
    op = make_op(
        "RANGE",
        [tensor("x", first), const(limit, np.float32), const(step, np.float32)],
        (F32, None),
    )
    record = find("RANGE")
    assert record is not None
    operands = [np.array(value, np.float32) for value in (1, limit, step)]
    np.testing.assert_array_equal(record.evaluate(op, operands)[0], peer_result(op, [first]))


def test_a_huge_range_is_measured_without_being_made() -> None:
    values = [const(value) for value in (0, 2_000_000_000, 1)]
    assert shapes(many("RANGE", values, 1)) == [(2_000_000_000,)]


def many(kind: str, inputs: Sequence[Tensor], count: int, attrs: object = None) -> Op:
    record = find(kind)
    assert record is not None
    made = [Tensor(f"o{i}", F32, ()) for i in range(count)]
    return Op(kind, list(inputs), made, attrs or record.attrs(), Origin.of(0, "o0"))


def shapes(op: Op) -> list[Shape]:
    record = find(op.kind)
    assert record is not None
    return [known.shape for known in record.infer(op)]


def test_parts_have_the_sizes_of_their_op() -> None:
    data = tensor("x", values(F32, (4, 6)))
    assert shapes(many("SPLIT", [const(1), data], 3, SplitAttrs(3))) == [(4, 2)] * 3
    split = many("SPLIT_V", [data, const([1, -1]), const(0)], 2, SplitAttrs(2))
    assert shapes(split) == [(1, 6), (3, 6)]
    assert shapes(many("UNPACK", [data], 4, UnpackAttrs(4, 0))) == [(6,)] * 4
    data.shape = (None, 6)
    assert shapes(split) == [(1, 6), (None, 6)]


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (many("SPLIT", [const(0), const(np.zeros((4, 6)))], 3, SplitAttrs(3)), "even"),
        (many("SPLIT", [const(2), const(np.zeros((4, 6)))], 2, SplitAttrs(2)), "axis"),
        (many("SPLIT", [const(0), const(np.zeros((4, 6)))], 2, SplitAttrs(3)), "parts"),
        (many("UNPACK", [const(np.zeros((4, 6)))], 2, UnpackAttrs(2, 0)), "axis"),
        (many("SLICE", [const(np.zeros(4)), const([3]), const([2])], 1), "range"),
        (many("SLICE", [const(np.zeros(4)), const([[3]]), const([[1]])], 1), "positions"),
        (many("GATHER", [const(np.zeros(4)), const([4])], 1), "indices"),
        (many("GATHER_ND", [const(np.zeros(4)), const([[-1]])], 1), "indices"),
        (many("TILE", [const(np.zeros(4)), const([-1])], 1), "not-negative"),
    ],
)
def test_operands_that_do_not_fit_break_a_rule(op: Op, rule: str) -> None:
    assert broken_rule(op) == rule


def test_run_time_positions_outside_are_refused_by_the_run() -> None:
    record = find("SLICE")
    assert record is not None
    positions = [tensor("p", np.array([1], np.int32)) for _ in range(2)]
    op = many("SLICE", [tensor("x", np.zeros(4, np.float32)), *positions], 1)
    assert shapes(op) == [(None,)]
    with pytest.raises(GraphError, match="outside"):
        record.evaluate(op, [np.zeros(4), np.array([3]), np.array([2])])


def test_run_time_indices_are_taken_to_the_nearest_element() -> None:
    record = find("GATHER")
    assert record is not None
    index = tensor("i", np.zeros(3, np.int32))
    op = many("GATHER", [tensor("x", np.zeros(4, np.float32)), index], 1)
    (result,) = record.evaluate(op, [np.arange(4), np.array([-7, 2, 9])])
    np.testing.assert_array_equal(result, [0, 2, 3])
