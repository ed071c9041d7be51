"""STRIDED_SLICE: ranges with steps, axes dropped, added or left whole by bit masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    known_ints,
    operand,
    present,
    when_ranked,
)
from circlet.ops.slicing import Slices, ints, lists, taken
from circlet.ops.view import Range, View


@dataclass(frozen=True)
class StridedSliceAttrs:
    """Bit masks over the positions of begin, end and strides."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False


def strided_slices(
    attrs: StridedSliceAttrs,
    shape: Shape,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
) -> Slices | None:
    """What a STRIDED_SLICE takes of an input of sizes `shape`; None where its operands do not fit.

    Positions beyond those given, and those an ellipsis stands for, take whole axes.
    """
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        return None
    walk = _Walk(attrs, shape)
    for position, bounds in enumerate(zip(begin, end, strides, strict=True)):
        if not walk.take(position, bounds, len(begin)):
            return None
    walk.take_whole(len(shape) - len(walk.ranges))
    return Slices(tuple(walk.ranges), tuple(walk.sizes))


class _Walk:
    """Goes through the positions of a STRIDED_SLICE and the axes they stand for."""

    def __init__(self, attrs: StridedSliceAttrs, shape: Shape) -> None:
        self._attrs = attrs
        self._shape = shape
        self.ranges: list[Range] = []
        self.sizes: list[int | None] = []

    def take(self, position: int, bounds: tuple[int, int, int], positions: int) -> bool:
        """Go over one position; False where the input has no axis for it."""
        bit = 1 << position
        if self._attrs.ellipsis_mask & bit:
            later = range(position + 1, positions)
            added = sum(self._attrs.new_axis_mask >> other & 1 for other in later)
            self.take_whole(len(self._shape) - len(self.ranges) - len(later) + added)
            return True
        if self._attrs.new_axis_mask & bit:
            self.sizes.append(1)
            return True
        if len(self.ranges) == len(self._shape):
            return False
        return self._take_axis(bit, bounds)

    def take_whole(self, count: int) -> None:
        """Take the next `count` axes whole."""
        for _ in range(count):
            size = self._shape[len(self.ranges)]
            self.ranges.append(Range(0, size))
            self.sizes.append(size)

    def _take_axis(self, bit: int, bounds: tuple[int, int, int]) -> bool:
        size = self._shape[len(self.ranges)]
        if self._attrs.shrink_axis_mask & bit:
            begin = 0 if self._attrs.begin_mask & bit else bounds[0]
            return self._drop_axis(begin, size)
        part = _range(self._attrs, bit, bounds, size)
        self.ranges.append(part)
        self.sizes.append(part.count)
        return True

    def _drop_axis(self, begin: int, size: int | None) -> bool:
        if size is None:
            self.ranges.append(Range(max(begin, 0), None))
            return True
        first = begin + size if begin < 0 else begin
        self.ranges.append(Range(first, 1))
        return 0 <= first < size


def _range(
    attrs: StridedSliceAttrs, bit: int, bounds: tuple[int, int, int], size: int | None
) -> Range:
    begin, end, step = bounds
    if size is None:
        return Range(0, None, step)
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (low, high) if step > 0 else (high, low)
    if not attrs.begin_mask & bit:
        first = min(max(begin + size if begin < 0 else begin, low), high)
    if not attrs.end_mask & bit:
        stop = end + first if attrs.offset else end
        last = min(max(stop + size if stop < 0 else stop, low), high)
    return Range(first, max(0, -((first - last) // step)), step)


def slices_of_strided_slice(op: Op) -> Slices | None:
    """What a STRIDED_SLICE with constant operands takes, None until a run or where they misfit."""
    begin, end, strides = (known_ints(op.input(index)) for index in (1, 2, 3))
    if begin is None or end is None or strides is None:
        return None
    return strided_slices(_attrs(op), operand(op, 0).shape, begin, end, strides)


def moving_axis(op: Op) -> int | None:
    """The axis of which a run says the one place that is taken, all others being taken whole."""
    attrs, strides, count = _attrs(op), known_ints(op.input(3)), operand(op, 1).shape
    if strides is None or set(strides) != {1} or count != (len(strides),):
        return None
    every = (1 << len(strides)) - 1
    axis = attrs.shrink_axis_mask.bit_length() - 1
    whole = attrs.begin_mask & attrs.end_mask & every
    alone = attrs.shrink_axis_mask == 1 << axis if axis >= 0 else False
    if not alone or attrs.ellipsis_mask or attrs.new_axis_mask or attrs.begin_mask >> axis & 1:
        return None
    fits = whole | 1 << axis == every and len(strides) <= len(operand(op, 0).shape)
    return axis if fits and operand(op, 0).has_rank else None


def _attrs(op: Op) -> StridedSliceAttrs:
    return op.attrs if isinstance(op.attrs, StridedSliceAttrs) else StridedSliceAttrs()


def _infer(op: Op) -> list[TensorType]:
    source, slices = operand(op, 0), slices_of_strided_slice(op)
    if slices is not None:
        return [TensorType(source.dtype, slices.shape)]
    axis = moving_axis(op)
    if axis is not None:
        sizes = (*source.shape[:axis], *source.shape[axis + 1 :])
        return [TensorType(source.dtype, sizes)]
    count = operand(op, 1).shape
    if len(count) != 1 or count[0] is None:
        return [TensorType(source.dtype, op.outputs[0].shape)]
    zeros, ones = (0,) * count[0], (1,) * count[0]
    unknown = strided_slices(_attrs(op), (None,) * len(source.shape), zeros, zeros, ones)
    shape = unknown.shape if unknown is not None else op.outputs[0].shape
    return [TensorType(source.dtype, shape)]


def _view(op: Op, index: int) -> View | None:
    slices = slices_of_strided_slice(op)
    return None if slices is None else View(0, slices.ranges)


def _fits(op: Op) -> bool:
    is_known = all(known_ints(op.input(index)) is not None for index in (1, 2, 3))
    return not is_known or slices_of_strided_slice(op) is not None


def _one_ellipsis(op: Op) -> bool:
    return _attrs(op).ellipsis_mask.bit_count() <= 1


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    begin, end, strides = (ints(array) for array in inputs[1:4])
    slices = strided_slices(_attrs(op), source.shape, begin, end, strides)
    if slices is None:
        why = f"begin {begin}, end {end} and strides {strides} do not fit {list(source.shape)}"
        raise GraphError("STRIDED_SLICE reaches outside its input", where=op.name, why=why)
    return [taken(source, slices, op)]


register(
    OpDef(
        kind="STRIDED_SLICE",
        attrs=StridedSliceAttrs,
        arity=(4, 4),
        required=4,
        dtypes=("* INT32 INT32 INT32 -> *", "* INT64 INT64 INT64 -> *"),
        infer=infer_ranked(_infer),
        evaluate=_evaluate,
        view=_view,
        shape_inputs=(1, 2, 3),
        rules=(
            lists(1, 2, 3),
            Rule("ellipsis", _one_ellipsis, "at most one position may be an ellipsis"),
            when_ranked("range", _fits, "begin, end and strides must fit the input"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
