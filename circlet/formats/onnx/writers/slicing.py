"""Parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, Order, Value, identity
from circlet.ir import Tensor
from circlet.ops.order import ReverseSequenceAttrs
from circlet.ops.slicing import slices_of_slice
from circlet.ops.split import UnpackAttrs, split_parts
from circlet.ops.strided_slice import StridedSliceAttrs, slices_of_strided_slice
from circlet.ops.view import Range

_END = np.iinfo(np.int64).max


def _sliced(op: Written, data: Tensor, ranges: Sequence[Range], order: Order) -> Value:
    """What ranges take of a tensor; a range without a count goes to the end."""
    value, sizes = op.value(data, order), data.shape
    cut = [axis for axis, part in enumerate(ranges) if not _is_whole(part, sizes[axis])]
    if not cut:
        return value
    starts = [ranges[axis].start for axis in cut]
    steps = [ranges[axis].step for axis in cut]
    ends = [_end(ranges[axis]) for axis in cut]
    places = [order.index(axis) for axis in cut]
    return op.node("Slice", [value, *map(op.ints, (starts, ends, places, steps))])


def _is_whole(part: Range, size: int | None) -> bool:
    return part.start == 0 and part.step == 1 and part.count == size


def _end(part: Range) -> int:
    if part.count is None:
        return _END if part.step > 0 else -_END
    end = part.start + part.step * part.count
    return end if end >= 0 else -_END


@writes("SLICE")
def _slice(op: Written) -> None:
    slices = slices_of_slice(op.op)
    if slices is not None:
        order = op.order([op[0]])
        op.give_stored(_sliced(op, op[0], slices.ranges, order), order)
        return
    begin, size = op.whole(op[1]), op.whole(op[2])
    rest = op.node("Equal", [size, op.ints(-1)])
    ends = op.node("Where", [rest, op.ints(_END), op.node("Add", [begin, size])])
    axes = op.ints(range(len(op[0].shape)))
    op.give_stored(op.node("Slice", [op.value(op[0]), begin, ends, axes]))


@writes("STRIDED_SLICE")
def _strided_slice(op: Written) -> None:
    data, attrs = op[0], op.attrs(StridedSliceAttrs)
    slices = slices_of_strided_slice(op.op)
    if slices is None or None in data.shape:
        _computed_slice(op)
        return
    same_rank = not attrs.shrink_axis_mask and not attrs.new_axis_mask
    order = op.order([data]) if same_rank else identity(len(data.shape))
    made = _sliced(op, data, slices.ranges, order)
    if same_rank:
        op.give_stored(made, order)
    else:
        op.give_stored(op.reshape(made, [size or 0 for size in slices.shape]))


def _computed_slice(op: Written) -> None:
    """Places that are computed, or axes of open sizes: masked places become their ends."""
    attrs, strides = op.attrs(StridedSliceAttrs), op.known(3, "steps")
    if attrs.ellipsis_mask or attrs.new_axis_mask or attrs.offset:
        raise NotWrittenError("axes are added or left out, and places or sizes are open")
    if min(strides, default=1) < 0 and (attrs.begin_mask or attrs.end_mask):
        raise NotWrittenError("it goes backwards, and places or sizes are open")
    count = len(strides)
    drops = [axis for axis in range(count) if attrs.shrink_axis_mask >> axis & 1]
    begin, end = op.whole(op[1]), op.whole(op[2])
    begin = _masked(op, begin, attrs.begin_mask, count, 0)
    after = op.node("Add", [begin, op.ints(1)])
    stop = op.node("Where", [op.node("Equal", [after, op.ints(0)]), op.ints(_END), after])
    ends = _masked(op, end, attrs.end_mask, count, _END)
    if drops:
        flags = op.constant([axis in drops for axis in range(count)], np.bool_)
        ends = op.node("Where", [flags, stop, ends])
    axes = op.ints(range(count))
    made = op.node("Slice", [op.value(op[0]), begin, ends, axes, op.ints(strides)])
    op.give_stored(op.node("Squeeze", [made, op.ints(drops)]) if drops else made)


def _masked(op: Written, places: Value, mask: int, count: int, place: int) -> Value:
    flags = [bool(mask >> axis & 1) for axis in range(count)]
    if not any(flags):
        return places
    return op.node("Where", [op.constant(flags, np.bool_), op.ints(place), places])


@writes("SPLIT", "SPLIT_V")
def _split(op: Written) -> None:
    data, parts = op[1 if op.op.kind == "SPLIT" else 0], split_parts(op.op)
    if parts is None:
        raise NotWrittenError("where it cuts is computed in a run")
    order = op.order([data], data)
    axis, count = order.index(parts.axis), len(op.op.outputs)
    if None in parts.sizes:
        if op.op.kind != "SPLIT":
            raise NotWrittenError("it cuts an axis of open size")
        made = op.many("Split", [op.value(data, order)], count, axis=axis, num_outputs=count)
    else:
        given = [op.value(data, order), op.ints([size or 0 for size in parts.sizes])]
        made = op.many("Split", given, count, axis=axis)
    for index, value in enumerate(made):
        op.give_stored(value, order, index)


@writes("UNPACK")
def _unpack(op: Written) -> None:
    data, count = op[0], len(op.op.outputs)
    (axis,) = op.axes([op.attrs(UnpackAttrs).axis], len(data.shape))
    parts = op.many("Split", [op.value(data), op.ints([1] * count)], count, axis=axis)
    for index, part in enumerate(parts):
        op.give_stored(op.node("Squeeze", [part, op.ints([axis])]), index=index)


@writes("REVERSE_V2")
def _reverse(op: Written) -> None:
    data, order = op[0], op.order([op[0]])
    axes = [order.index(axis) for axis in op.axes(op.known(1, "axes"), len(data.shape))]
    lists = ([-1] * len(axes), [-_END] * len(axes), axes, [-1] * len(axes))
    op.give_stored(op.node("Slice", [op.value(data, order), *map(op.ints, lists)]), order)


@writes("REVERSE_SEQUENCE")
def _reverse_sequence(op: Written) -> None:
    """ONNX wants the two axes first."""
    attrs, data = op.attrs(ReverseSequenceAttrs), op[0]
    seq, batch = op.axes([attrs.seq_dim, attrs.batch_dim], len(data.shape))
    others = [axis for axis in range(len(data.shape)) if axis not in (seq, batch)]
    order = (batch, seq, *others)
    given = [op.value(data, order), op.whole(op[1])]
    op.give_stored(op.node("ReverseSequence", given, batch_axis=0, time_axis=1), order)
