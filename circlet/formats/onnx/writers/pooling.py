"""Poolings of images."""

from __future__ import annotations

from circlet.formats.onnx.writers.convolution import pads
from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Value, channels_first, is_quantised
from circlet.ir import DType
from circlet.ops.pool import Pool2DAttrs, pool_window_of

_STORED_MAXIMA = (DType.INT8, DType.UINT8)


def _pooled(op: Written, kind: str, image: Value) -> Value:
    attrs, sizes = op.attrs(Pool2DAttrs), op[0].shape[1:3]
    around = pads(attrs.padding, sizes, pool_window_of(op.op)[1:])
    kernel, strides = list(attrs.kernel_shape), list(attrs.strides)
    return op.node(kind, [image], kernel_shape=kernel, strides=strides, **around)


@writes("AVERAGE_POOL_2D")
def _average(op: Written) -> None:
    order = channels_first(4)
    made = _pooled(op, "AveragePool", op.real(op[0], order))
    op.finish(made, op.attrs(Pool2DAttrs).activation, order)


@writes("MAX_POOL_2D")
def _maximum(op: Written) -> None:
    data, order, activation = op[0], channels_first(4), op.attrs(Pool2DAttrs).activation
    if is_quantised(data) and data.dtype in _STORED_MAXIMA and activation == "NONE":
        op.give_stored(_pooled(op, "MaxPool", op.value(data, order)), order)
        return
    op.finish(_pooled(op, "MaxPool", op.real(data, order)), activation, order)


@writes("L2_POOL_2D")
def _l2(op: Written) -> None:
    order = channels_first(4)
    real = op.real(op[0], order)
    mean = _pooled(op, "AveragePool", op.node("Mul", [real, real]))
    op.finish(op.node("Sqrt", [mean]), op.attrs(Pool2DAttrs).activation, order)
