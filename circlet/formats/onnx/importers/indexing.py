"""Gathers, scatters, searches and sorts."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.order import CumsumAttrs, OneHotAttrs
from circlet.ops.reduce import ArgAttrs


def _counted(node: Node, indices: Tensor, size: int | None, x: Tensor, axis: int) -> Tensor:
    """Indices from the front: those below zero count from the end."""
    if indices.data is not None and size is not None:
        values = indices.data
        if values.size and (values.min() < -size or values.max() >= size):
            raise node.wrong("an index lies outside of its axis", f"{size} elements")
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


@importer("GatherND")
def _gather_nd(node: Node) -> Tensor:
    indices = node.known(1)
    if node.whole("batch_dims") or indices is None or (indices < 0).any():
        raise NotLoweredError("indices may be negative, or have axes in common")
    return node.op("GATHER_ND", [node[0], node[1]])


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
    if not node.whole("largest", 1) or count is None or axis != rank - 1:
        raise NotLoweredError("only the largest along the last axis are an operator of Circle")
    number = node.const(count[0], np.int32)
    values, places = node.many("TOPK_V2", [x, number], None, [x.dtype, DType.INT32])
    return [values, node.cast(places, DType.INT64)]


@importer("CumSum")
def _cum_sum(node: Node) -> Tensor:
    attrs = CumsumAttrs(bool(node.whole("exclusive")), bool(node.whole("reverse")))
    return node.op("CUMSUM", [node[0], node.cast(node[1], DType.INT32)], attrs)


@importer("NonZero")
def _non_zero(node: Node) -> Tensor:
    """WHERE has a row for each element; ONNX a column."""
    found = node.op("WHERE", [node[0]], dtype=DType.INT64)
    return node.transpose(found, [1, 0])
