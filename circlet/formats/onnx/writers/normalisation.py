"""Softmax and norms along an axis."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Order, Value, channels_first
from circlet.ops.inverse_root import L2NormAttrs
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.softmax import SoftmaxAttrs

_SMALLEST_NORM = 1e-6


def _last(op: Written) -> tuple[Value, Order, int]:
    """The operand, its order, and where its last axis is in it."""
    order = op.order([op[0]])
    return op.real(op[0], order), order, order.index(len(order) - 1)


@writes("SOFTMAX")
def _softmax(op: Written) -> None:
    value, order, axis = _last(op)
    beta = np.float32(op.attrs(SoftmaxAttrs).beta)
    scaled = value if beta == 1 else op.node("Mul", [value, op.constant(beta)])
    op.give(op.node("Softmax", [scaled], axis=axis), order)


@writes("LOG_SOFTMAX")
def _log_softmax(op: Written) -> None:
    value, order, axis = _last(op)
    op.give(op.node("LogSoftmax", [value], axis=axis), order)


@writes("L2_NORMALIZATION")
def _l2_normalization(op: Written) -> None:
    value, order, axis = _last(op)
    norm = op.node("ReduceL2", [value, op.ints([axis])], keepdims=1)
    least = op.node("Max", [norm, op.constant(_SMALLEST_NORM, np.float32)])
    made = op.node("Div", [value, least])
    op.finish(made, op.attrs(L2NormAttrs).activation, order)


@writes("LOCAL_RESPONSE_NORMALIZATION")
def _local_response_normalization(op: Written) -> None:
    """ONNX divides the factor of the sum by the size of the window, which is given here."""
    attrs, order = op.attrs(LocalResponseNormAttrs), channels_first(len(op[0].shape))
    size = 2 * attrs.radius + 1
    made = op.node(
        "LRN",
        [op.real(op[0], order)],
        size=size,
        alpha=float(attrs.alpha * size),
        beta=float(attrs.beta),
        bias=float(attrs.bias),
    )
    op.give(made, order)
