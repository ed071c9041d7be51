"""Reductions along axes."""

from __future__ import annotations

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Order, is_quantised
from circlet.ir import DType
from circlet.ops.operands import known_ints
from circlet.ops.reduce import ReducerAttrs

_KINDS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}
_LEAST_RANK = 4  # of images; rows of fewer axes are averaged in normalisations
_FLAGS = {"REDUCE_ANY": "ReduceMax", "REDUCE_ALL": "ReduceMin"}


@writes(*_KINDS)
def _reduce(op: Written) -> None:
    order = _order_of_pixels(op) if op.op.kind == "MEAN" else None
    if order is None:
        _reduced(op, _KINDS[op.op.kind], is_flag=False)
    else:
        op.give(op.node("GlobalAveragePool", [op.real(op[0], order)]), order)


def _order_of_pixels(op: Written) -> Order | None:
    """How images lie whose channels are averaged, for which runtimes have kernels of integers."""
    data, known = op[0], known_ints(op.op.input(1))
    rank = len(data.shape)
    if known is None or rank < _LEAST_RANK or not op.attrs(ReducerAttrs).keep_dims:
        return None
    if not data.dtype.is_float and not is_quantised(data):
        return None
    order = op.order([data], data)
    places = sorted(order.index(axis) for axis in op.axes(known, rank))
    return order if places == list(range(2, rank)) else None


@writes(*_FLAGS)
def _any_or_all(op: Written) -> None:
    """The largest or the smallest of ones and zeros."""
    _reduced(op, _FLAGS[op.op.kind], is_flag=True)


def _reduced(op: Written, kind: str, *, is_flag: bool) -> None:
    data, keeps = op[0], op.attrs(ReducerAttrs).keep_dims
    rank, known = len(data.shape), known_ints(op.op.input(1))
    if known is None:
        order, places, result = tuple(range(rank)), op.whole(op[1]), None
    else:
        axes = op.axes(known, rank)
        order = op.order([data], data)
        places = op.ints(sorted({order.index(axis) for axis in axes}))
        result = order if keeps else _left(order, axes)
    value = op.cast(op.value(data, order), DType.INT32) if is_flag else op.real(data, order)
    flags = {"keepdims": int(keeps), "noop_with_empty_axes": 1}
    made = op.node(kind, [value, places], **flags)
    op.give(op.cast(made, DType.BOOL) if is_flag else made, result)


def _left(order: Order, axes: list[int]) -> Order:
    """The order of what is left where axes are dropped."""
    kept = [axis for axis in order if axis not in axes]
    return tuple(sorted(kept).index(axis) for axis in kept)
