"""Gathers, scatters, searches and sorts."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.order import CumsumAttrs, OneHotAttrs, ReverseSequenceAttrs
from circlet.ops.reduce import ArgAttrs
from circlet.words import counted

_MOST_PLACES = 1 << 22


def _counted(node: Node, indices: Tensor, size: int | None, x: Tensor, axis: int) -> Tensor:
    """Indices from the front: those below zero count from the end."""
    if indices.data is not None and size is not None:
        values = indices.data
        if values.size and (values.min() < -size or values.max() >= size):
            raise node.wrong("an index lies outside of its axis", counted(size, "element"))
        return node.const(np.where(values < 0, values + size, values).astype(values.dtype))
    if indices.data is not None and not (indices.data < 0).any():
        return indices
    zero = node.const(0, indices.dtype.numpy)
    if size is None:
        at = node.const(axis, np.int32)
        count = node.cast(node.op("GATHER", [node.sizes(x), at]), indices.dtype)
    else:
        count = node.const(size, indices.dtype.numpy)
    is_negative = node.op("LESS", [indices, zero], dtype=DType.BOOL)
    shifted = node.op("ADD", [indices, count])
    return node.op("SELECT_V2", [is_negative, shifted, indices], dtype=indices.dtype)


@importer("Gather")
def _gather(node: Node) -> Tensor:
    x = node[0]
    axis = node.axis(node.whole("axis"), node.rank(x))
    indices = _counted(node, node[1], x.shape[axis], x, axis)
    return node.op("GATHER", [x, indices], GatherAttrs(axis))


@importer("GatherElements")
def _gather_elements(node: Node) -> Tensor:
    """GATHER of what lies flat: the places of a row are known, those along the axis are given."""
    x, indices = node[0], node[1]
    axis = node.axis(node.whole("axis"), node.rank(x))
    if None in (*x.shape, *indices.shape) or 0 in (*x.shape, *indices.shape):
        raise NotLoweredError("sizes are open, or 0")
    if indices.elements > _MOST_PLACES:
        raise NotLoweredError("a table of so many places would be large")
    sizes = [size or 0 for size in x.shape]
    pairs = enumerate(zip(indices.static_shape, sizes, strict=True))
    if any(own > size for at, (own, size) in pairs if at != axis):
        raise node.wrong("indices are larger than what they point into", f"{indices.shape}")
    steps = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
    wide = node.cast(_counted(node, indices, sizes[axis], x, axis), DType.INT32)
    along = node.op("MUL", [wide, node.const(steps[axis], np.int32)])
    grid = np.indices(indices.static_shape, np.int32, sparse=True)
    rest = sum(grid[at] * steps[at] for at in range(len(sizes)) if at != axis)
    places = node.op("ADD", [along, node.const(rest, np.int32)])
    return node.op("GATHER", [node.reshape(x, [-1]), places], GatherAttrs(0))


@importer("GatherND")
def _gather_nd(node: Node) -> Tensor:
    x, indices, known = node[0], node[1], node.known(1)
    if node.whole("batch_dims"):
        raise NotLoweredError("indices have axes in common")
    if known is not None and not (known < 0).any():
        return node.op("GATHER_ND", [x, indices])
    depth = indices.shape[-1] if indices.has_rank and indices.shape else None
    if depth is None or not x.has_rank:
        raise NotLoweredError("indices may be negative, and how many axes they are of is open")
    zero = node.const(0, indices.dtype.numpy)
    first = node.op(
        "SLICE", [node.sizes(x), node.const([0], np.int32), node.const([depth], np.int32)]
    )
    sizes = node.cast(first, indices.dtype)
    is_negative = node.op("LESS", [indices, zero], dtype=DType.BOOL)
    shifted = node.op("ADD", [indices, sizes])
    places = node.op("SELECT_V2", [is_negative, shifted, indices], dtype=indices.dtype)
    return node.op("GATHER_ND", [x, places])


def _extreme(node: Node, record: str) -> Tensor:
    """ARG_MAX and ARG_MIN, which drop the axis and take the first of equal elements."""
    x = node[0]
    axis = node.axis(node.whole("axis"), node.rank(x))
    if node.whole("select_last_index"):
        raise NotLoweredError("the last of equal elements is asked for")
    place = node.const(axis, np.int32)
    found = node.op(record, [x, place], ArgAttrs("INT64"), DType.INT64)
    if not node.whole("keepdims", 1):
        return found
    return node.op("EXPAND_DIMS", [found, place])


@importer("OneHot")
def _one_hot(node: Node) -> Tensor:
    """ONE_HOT, which knows no indices from the end."""
    indices, depth, values = node[0], node[1], node[2]
    if not indices.dtype.is_integer or indices.dtype.bits < 32:
        indices = node.cast(indices, DType.INT64)
    depth = node.reshape(node.cast(depth, DType.INT32), [])
    if indices.data is None or (indices.data < 0).any():
        zero, count = node.const(0, indices.dtype.numpy), node.cast(depth, indices.dtype)
        is_negative = node.op("LESS", [indices, zero], dtype=DType.BOOL)
        shifted = node.op("ADD", [indices, count])
        indices = node.op("SELECT_V2", [is_negative, shifted, indices], dtype=indices.dtype)
    off, on = (
        node.op("GATHER", [values, node.const(place, np.int32)], GatherAttrs(0), values.dtype)
        for place in (0, 1)
    )
    axis = node.axis(node.whole("axis", -1), node.rank(indices) + 1)
    return node.op("ONE_HOT", [indices, depth, on, off], OneHotAttrs(axis), values.dtype)


@importer("ArgMax")
def _arg_max(node: Node) -> Tensor:
    return _extreme(node, "ARG_MAX")


@importer("ArgMin")
def _arg_min(node: Node) -> Tensor:
    return _extreme(node, "ARG_MIN")


@importer("TopK")
def _top_k(node: Node) -> list[Tensor]:
    x = node[0]
    rank = node.rank(x)
    axis = node.axis(node.whole("axis", -1), rank)
    count = node.known_ints(1) if node.opset >= 10 else (node.whole("k"),)
    if count is None:
        raise NotLoweredError("how many are wanted is computed")
    is_least = not node.whole("largest", 1)
    if is_least and not x.dtype.is_float:
        raise NotLoweredError("only of floats are the least those whose negatives are largest")
    order = [place for place in range(rank) if place != axis] + [axis]
    back = [int(place) for place in np.argsort(order)]
    x = node.transpose(node.op("NEG", [x]) if is_least else x, order)
    number = node.const(count[0], np.int32)
    values, places = node.many("TOPK_V2", [x, number], None, [x.dtype, DType.INT32])
    values = node.op("NEG", [values]) if is_least else values
    return [node.transpose(values, back), node.transpose(node.cast(places, DType.INT64), back)]


@importer("CumSum")
def _cum_sum(node: Node) -> Tensor:
    attrs = CumsumAttrs(bool(node.whole("exclusive")), bool(node.whole("reverse")))
    return node.op("CUMSUM", [node[0], node.cast(node[1], DType.INT32)], attrs)


@importer("ReverseSequence")
def _reverse_sequence(node: Node) -> Tensor:
    attrs = ReverseSequenceAttrs(node.whole("time_axis"), node.whole("batch_axis", 1))
    return node.op("REVERSE_SEQUENCE", [node[0], node[1]], attrs)


@importer("NonZero")
def _non_zero(node: Node) -> Tensor:
    """WHERE has a row for each element; ONNX a column."""
    found = node.op("WHERE", [node[0]], dtype=DType.INT64)
    return node.transpose(found, [1, 0])
