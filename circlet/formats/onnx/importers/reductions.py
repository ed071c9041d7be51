"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import SqueezeAttrs

_AXES_ARE_OPERANDS = 18


def _places(node: Node, x: Tensor, since: int) -> tuple[int, ...]:
    """The node's axes; all of them where it names none, and () where it then reduces nothing."""
    rank = node.rank(x)
    axes = node.ints("axes") if node.opset < since else node.known_ints(1)
    if axes is None and node.opset >= since and node.optional(1) is not None:
        raise NotLoweredError("axes are computed")
    if not axes and node.whole("noop_with_empty_axes"):
        return ()
    places = node.axes(axes or range(rank), rank)
    if 0 in (x.shape[axis] for axis in places):
        raise NotLoweredError("there may be nothing to reduce")
    return places


def _reduced(node: Node, record: str, x: Tensor, since: int = _AXES_ARE_OPERANDS) -> Tensor:
    """`x` reduced along the node's axes."""
    places = _places(node, x, since)
    if not places:
        return x
    keep = ReducerAttrs(bool(node.whole("keepdims", 1)))
    return node.op(record, [x, node.const(places, np.int32)], keep)


def _plain(record: str, since: int = _AXES_ARE_OPERANDS) -> Callable[[Node], Tensor]:
    return lambda node: _reduced(node, record, node[0], since)


for _kind, _record in {"Max": "REDUCE_MAX", "Min": "REDUCE_MIN", "Prod": "REDUCE_PROD"}.items():
    importer(f"Reduce{_kind}")(_plain(_record))
importer("ReduceSum")(_plain("SUM", 13))


def _floats(node: Node) -> Tensor:
    if node[0].dtype not in (DType.FLOAT32, DType.FLOAT64):
        raise NotLoweredError("only floats have such a form")
    return node[0]


@importer("ReduceMean")
def _mean(node: Node) -> Tensor:
    return _reduced(node, "MEAN", _floats(node))


@importer("ReduceL1")
def _l1(node: Node) -> Tensor:
    return _reduced(node, "SUM", node.op("ABS", [_floats(node)]))


@importer("ReduceSumSquare")
def _sum_square(node: Node) -> Tensor:
    x = _floats(node)
    return _reduced(node, "SUM", node.op("MUL", [x, x]))


@importer("ReduceL2")
def _l2(node: Node) -> Tensor:
    return node.op("SQRT", [_sum_square(node)])


@importer("ReduceLogSum")
def _log_sum(node: Node) -> Tensor:
    return node.op("LOG", [_reduced(node, "SUM", _floats(node))])


@importer("ReduceLogSumExp")
def _log_sum_exp(node: Node) -> Tensor:
    """log(sum(exp(x - largest))) + largest, which does not overflow."""
    x = _floats(node)
    places = _places(node, x, _AXES_ARE_OPERANDS)
    if not places:
        return x
    axes, keep = node.const(places, np.int32), ReducerAttrs(True)
    largest = node.op("REDUCE_MAX", [x, axes], keep)
    infinity = node.const(np.inf, x.dtype.numpy)
    is_finite = node.op("LESS", [node.op("ABS", [largest]), infinity], dtype=DType.BOOL)
    zero = node.const(0, x.dtype.numpy)
    shift = node.op("SELECT_V2", [is_finite, largest, zero], dtype=x.dtype)
    powers = node.op("EXP", [node.op("SUB", [x, shift])])
    made = node.op("ADD", [node.op("LOG", [node.op("SUM", [powers, axes], keep)]), shift])
    return made if node.whole("keepdims", 1) else node.op("SQUEEZE", [made], SqueezeAttrs(places))
