"""Operators that change sizes, order or extent."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.blocks import DepthAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import MOST_DIMENSIONS
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs
from circlet.ops.split import SplitAttrs
from circlet.ops.strided_slice import StridedSliceAttrs

_LAST = np.iinfo(np.int64).max


@importer("Reshape")
def _reshape(node: Node) -> Tensor:
    x, target = node[0], node.known_ints(1)
    if node.whole("allowzero"):
        if target is None or 0 in target:
            raise NotLoweredError("sizes may be zero")
        return node.reshape(x, target)
    if target is None:
        return _computed_reshape(node, x, node[1])
    settled = _settled(node, x, target)
    if settled is None:
        return _computed_reshape(node, x, node.const(target, np.int64))
    return node.reshape(x, settled)


def _settled(node: Node, x: Tensor, target: Sequence[int]) -> list[int] | None:
    """The sizes to reshape to, one of them -1 at most; None where only a run knows them."""
    rank = node.rank(x)
    if any(size == 0 and place >= rank for place, size in enumerate(target)):
        raise node.wrong("a size is to be copied that does not exist", str(list(target)))
    sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(target)]
    if None not in sizes:
        return [-1 if size is None else size for size in sizes]
    if sizes.count(None) > 1:
        return None
    if -1 not in sizes:
        return [-1 if size is None else size for size in sizes]
    place = sizes.index(None)
    if any(size is None for i, size in enumerate(x.shape) if i != place):
        return None
    total = prod(size or 1 for i, size in enumerate(x.shape) if i != place)
    others = prod(size for size in sizes if size is not None and size != -1)
    if not others or total % others:
        return None
    return [-1 if size is None else total // others if size == -1 else size for size in sizes]


def _computed_reshape(node: Node, x: Tensor, target: Tensor) -> Tensor:
    """RESHAPE whose zeros are replaced by the sizes that they stand for."""
    count = target.shape[0] if target.has_rank and len(target.shape) == 1 else None
    if count is None:
        raise NotLoweredError("the number of sizes is not known")
    if count > MOST_DIMENSIONS:
        raise node.wrong("more sizes are listed than arrays have", str(count))
    zero = node.const(0, target.dtype.numpy)
    kept = min(count, node.rank(x))
    if kept:
        own = node.op("SLICE", [node.sizes(x), _list(node, [0]), _list(node, [kept])])
        if count > kept:
            ones = node.const([1] * (count - kept), np.int64)
            own = node.op("CONCATENATION", [own, ones], ConcatenationAttrs(0))
        is_zero = node.op("EQUAL", [target, zero], dtype=DType.BOOL)
        target = node.op("SELECT_V2", [is_zero, own, target], dtype=target.dtype)
    return node.op("RESHAPE", [x, target], ReshapeAttrs())


def _list(node: Node, values: Sequence[int]) -> Tensor:
    return node.const(list(values), np.int64)


@importer("Flatten")
def _flatten(node: Node) -> Tensor:
    x = node[0]
    rank = node.rank(x)
    axis = node.whole("axis", 1)
    axis = axis + rank if axis < 0 else axis
    front, back = x.shape[:axis], x.shape[axis:]
    if None not in back and 0 not in back:
        return node.reshape(x, [-1, prod(size or 0 for size in back)])
    if None not in front and 0 not in front:
        return node.reshape(x, [prod(size or 0 for size in front), -1])
    sizes = node.sizes(x)
    parts = [_product(node, sizes, *part) for part in ((0, axis), (axis, rank))]
    target = node.op("CONCATENATION", parts, ConcatenationAttrs(0))
    return node.op("RESHAPE", [x, target], ReshapeAttrs())


def _product(node: Node, sizes: Tensor, first: int, last: int) -> Tensor:
    """The product of some of the sizes, which may be none, as a list of one."""
    made = _list(node, [1])
    for place in range(first, last):
        size = node.op("SLICE", [sizes, _list(node, [place]), _list(node, [1])])
        made = size if place == first else node.op("MUL", [made, size])
    return made


def _axes_operand(node: Node, index: int, rank: int) -> tuple[int, ...] | None:
    """Axes of an attribute or, later, of an operand; None where there are none."""
    given = node.ints("axes") if node.opset < 13 else node.known_ints(index)
    if given is None and node.opset >= 13 and node.optional(index) is not None:
        raise NotLoweredError("axes are computed")
    return None if given is None else node.axes(given, rank)


@importer("Squeeze")
def _squeeze(node: Node) -> Tensor:
    x = node[0]
    rank = node.rank(x)
    axes = _axes_operand(node, 1, rank)
    if axes is None:
        if None in x.shape:
            raise NotLoweredError("which axes are 1 is not known")
        axes = tuple(i for i, size in enumerate(x.shape) if size == 1)
    if any(x.shape[axis] not in (1, None) for axis in axes):
        raise node.wrong("an axis that is not 1 is to be dropped", f"{axes} of {x.shape}")
    kept = [size for i, size in enumerate(x.shape) if i not in axes]
    if _one_open(kept):
        return _resized(node, x, kept)
    return node.op("SQUEEZE", [x], SqueezeAttrs(axes)) if axes else x


@importer("Unsqueeze")
def _unsqueeze(node: Node) -> Tensor:
    x = node[0]
    given = node.ints("axes") if node.opset < 13 else node.known_ints(1)
    if given is None:
        raise NotLoweredError("axes are computed")
    rank = node.rank(x) + len(given)
    axes = node.axes(given, rank)
    if len(set(axes)) != len(axes):
        raise node.wrong("an axis is added twice", str(given))
    own = iter(x.shape)
    sizes = [1 if i in axes else next(own) for i in range(rank)]
    if _one_open(sizes):
        return _resized(node, x, sizes)
    for axis in sorted(axes):
        x = node.op("EXPAND_DIMS", [x, node.const(axis, np.int32)])
    return x


def _resized(node: Node, x: Tensor, sizes: Sequence[int | None]) -> Tensor:
    """`x` in sizes of which one at most is open."""
    return node.reshape(x, [-1 if size is None else size for size in sizes])


def _one_open(sizes: Sequence[int | None]) -> bool:
    return None not in sizes or (list(sizes).count(None) == 1 and 0 not in sizes)


@importer("Transpose")
def _transpose(node: Node) -> Tensor:
    rank = node.rank(node[0])
    order = node.ints("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise node.wrong("perm does not hold each axis once", f"{list(order)} of {rank}")
    return node.transpose(node[0], order)


@importer("Concat")
def _concat(node: Node) -> Tensor:
    parts = [node[index] for index in range(len(node.inputs))]
    axis = node.axis(node.whole("axis"), node.rank(parts[0]))
    if len(parts) == 1:
        return parts[0]
    return node.op("CONCATENATION", parts, ConcatenationAttrs(axis))


@importer("Split")
def _split(node: Node) -> list[Tensor]:
    x, count = node[0], len(node.outputs)
    axis = node.axis(node.whole("axis"), node.rank(x))
    sizes = node.ints("split") if node.opset < 13 else node.known_ints(1)
    if sizes is None:
        if node.opset >= 13 and node.optional(1) is not None:
            raise NotLoweredError("the sizes of the parts are computed")
        sizes = _even(node, x.shape[axis], count)
    given = [x, node.const(sizes, np.int32), node.const(axis, np.int32)]
    return node.many("SPLIT_V", given, SplitAttrs(count), [x.dtype] * count)


def _even(node: Node, size: int | None, count: int) -> tuple[int, ...]:
    if size is None:
        raise NotLoweredError("the size along the axis is not known")
    each = -(-size // count)
    sizes = [each] * (count - 1)
    return (*sizes, size - sum(sizes))


@importer("Slice")
def _slice_of_attributes(node: Node) -> Tensor:
    starts, ends = node.ints("starts"), node.ints("ends")
    if starts is None or ends is None:
        raise node.wrong("Slice lacks its ranges")
    axes = node.ints("axes") or tuple(range(len(starts)))
    return _sliced(node, _list(node, starts), _list(node, ends), axes, (1,) * len(starts))


@importer("Slice", since=10)
def _slice(node: Node) -> Tensor:
    starts, ends = node[1], node[2]
    count = starts.shape[0] if len(starts.shape) == 1 else None
    if count is None:
        raise NotLoweredError("the number of ranges is not known")
    axes, steps = node.known_ints(3), node.known_ints(4)
    if (axes is None and node.optional(3)) or (steps is None and node.optional(4)):
        raise NotLoweredError("axes or steps are computed")
    return _sliced(node, starts, ends, axes or tuple(range(count)), steps or (1,) * count)


def _sliced(
    node: Node, starts: Tensor, ends: Tensor, axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    x = node[0]
    places = node.axes(axes, node.rank(x))
    if len(set(places)) != len(places) or len(places) != len(steps):
        raise node.wrong("the ranges of Slice do not fit its axes")
    order = np.argsort(places)
    if list(order) != list(range(len(order))):
        at = node.const(order, np.int32)
        starts, ends = (node.op("GATHER", [t, at], None, t.dtype) for t in (starts, ends))
    count = max(places, default=-1) + 1
    masked = sum(1 << axis for axis in range(count) if axis not in places)
    by_axis = dict(zip(places, steps, strict=True))
    strides = [by_axis.get(axis, 1) for axis in range(count)]
    given = [_placed(node, t, places, count) for t in (starts, ends)]
    attrs = StridedSliceAttrs(begin_mask=masked, end_mask=masked)
    return node.op("STRIDED_SLICE", [x, *given, node.const(strides, np.int32)], attrs)


def _placed(node: Node, values: Tensor, places: Sequence[int], count: int) -> Tensor:
    """One INT32 for each axis, zero where there is no range."""
    ordered = sorted(places)
    if values.data is not None:
        made = np.zeros(count, np.int64)
        made[ordered] = np.clip(values.data.reshape(-1).astype(np.int64), -(2**31), 2**31 - 1)
        return node.const(made, np.int32)
    if len(places) != count:
        zero = node.const([0], values.dtype.numpy)
        padded = node.op("CONCATENATION", [values, zero], ConcatenationAttrs(0))
        at = [ordered.index(i) if i in ordered else len(ordered) for i in range(count)]
        values = node.op("GATHER", [padded, node.const(at, np.int32)])
    bounds = (node.const(value, values.dtype.numpy) for value in (-(2**31) + 1, 2**31 - 1))
    low, high = bounds
    clipped = node.op("MINIMUM", [node.op("MAXIMUM", [values, low]), high])
    return node.cast(clipped, DType.INT32)


@importer("Expand")
def _expand(node: Node) -> Tensor:
    x, target = node[0], node[1]
    own = node.cast(node.sizes(x), target.dtype)
    return node.op("BROADCAST_TO", [x, node.op("BROADCAST_ARGS", [own, target])])


@importer("Tile")
def _tile(node: Node) -> Tensor:
    return node.op("TILE", [node[0], node[1]])


@importer("Pad")
def _pad_of_attributes(node: Node) -> Tensor:
    pads = node.ints("pads")
    if pads is None:
        raise node.wrong("Pad lacks its amounts")
    fill = node.const(np.float32(node.real("value", 0)))
    return _padded(node, pads, tuple(range(len(pads) // 2)), fill)


@importer("Pad", since=11)
def _pad(node: Node) -> Tensor:
    pads, axes = node.known_ints(1), node.known_ints(3)
    if pads is None or (axes is None and node.optional(3) is not None):
        raise NotLoweredError("the amounts are computed")
    fill = node.optional(2)
    return _padded(node, pads, axes or tuple(range(len(pads) // 2)), fill)


def _padded(node: Node, pads: Sequence[int], axes: Sequence[int], fill: Tensor | None) -> Tensor:
    x, mode = node[0], node.text("mode", "constant")
    rank = node.rank(x)
    if len(pads) != 2 * len(axes):
        raise node.wrong("there are not two amounts for each axis", str(list(pads)))
    table = np.zeros((rank, 2), np.int32)
    for place, axis in enumerate(node.axes(axes, rank)):
        table[axis] = pads[place], pads[place + len(axes)]
    if mode not in ("constant", "reflect"):
        raise NotLoweredError(f"{mode} is no mode of padding of Circle")
    x, table = _cut(node, x, table), np.maximum(table, 0)
    if not table.any():
        return x
    amounts = node.const(table)
    if mode == "reflect":
        return node.op("MIRROR_PAD", [x, amounts], MirrorPadAttrs("REFLECT"))
    if fill is None:
        return node.op("PAD", [x, amounts])
    return node.op("PADV2", [x, amounts, fill])


def _cut(node: Node, x: Tensor, table: npt.NDArray[np.int32]) -> Tensor:
    """What is left where amounts are negative."""
    before, behind = np.maximum(-table, 0).T
    if not before.any() and not behind.any():
        return x
    whole = sum(1 << axis for axis, amount in enumerate(behind) if not amount)
    given = [node.const(row) for row in (before, -behind, np.ones_like(before))]
    return node.op("STRIDED_SLICE", [x, *given], StridedSliceAttrs(end_mask=whole))


@importer("DepthToSpace")
def _depth_to_space(node: Node) -> Tensor:
    """In the order DCR it is that of Circle; in CRD, two reshapes around a transpose."""
    x, block = node[0], node.whole("blocksize")
    if node.text("mode", "DCR") == "DCR":
        made = node.op("DEPTH_TO_SPACE", [node.channels_last(x)], DepthAttrs(block))
        return node.channels_first(made)
    batch, depth, height, width = x.shape
    if None in (depth, height, width) or not block:
        raise NotLoweredError("sizes are open")
    assert depth is not None and height is not None and width is not None
    filters = depth // (block * block)
    lead = -1 if batch is None else batch
    split = node.reshape(x, [lead, filters, block, block, height, width])
    moved = node.transpose(split, [0, 1, 4, 2, 5, 3])
    return node.reshape(moved, [lead, filters, height * block, width * block])


@importer("SpaceToDepth")
def _space_to_depth(node: Node) -> Tensor:
    if node.text("mode", "DCR") != "DCR":
        raise NotLoweredError("blocks lie within channels")
    attrs = DepthAttrs(node.whole("blocksize"))
    return node.channels_first(node.op("SPACE_TO_DEPTH", [node.channels_last(node[0])], attrs))
