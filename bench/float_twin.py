"""The same network in floats: what an integer network's kernels are held against."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps, load
from circlet.ir import DType, Op, Tensor
from circlet.ir.regions import reachable
from circlet.ops.shape import ReshapeAttrs
from circlet.stored import Bytes, StrPath

_STORED = {DType.INT4, DType.INT8, DType.UINT8, DType.INT16}
_BIASES = {DType.INT32, DType.INT64}
_BIASES_AT = {
    "CONV_2D": (2,),
    "DEPTHWISE_CONV_2D": (2,),
    "FULLY_CONNECTED": (2,),
    "TRANSPOSE_CONV": (3,),
    "SVDF": (3,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (12, 13, 14, 15, 17),
}
_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")


def float_twin(source: StrPath | Bytes) -> bytes:
    """A model file of the same operators, in the same places, over float32.

    Integers become the numbers that they stand for, and conversions between them reshapes that
    cost nothing. What has no float form is found out when the twin is opened.
    """
    model = load(source)
    for graph in reachable(model.main):
        biases = {bias for op in graph.ops for bias in _biases(op)}
        for tensor in {*graph.used_tensors(), *biases}:
            is_stored = tensor.dtype in _STORED and tensor.quant is not None
            if is_stored or (tensor.dtype in _BIASES and tensor in biases):
                _make_float(tensor)
        for op in graph.ops:
            _drop_conversion(op)
    return dumps(model, "circle")


def _biases(op: Op) -> list[Tensor]:
    operands = [op.input(position) for position in _BIASES_AT.get(op.kind, ())]
    return [tensor for tensor in operands if tensor is not None]


def _make_float(tensor: Tensor) -> None:
    quant = tensor.quant
    if tensor.data is not None:
        values = _centred(tensor).astype(np.float32)
        tensor.data = values * _broadcast(quant.scale, quant.axis, values) if quant else values
    tensor.dtype, tensor.quant, tensor.initial = DType.FLOAT32, None, None


def _centred(tensor: Tensor) -> np.ndarray:
    """A constant's integers less their zero point; packed ones count as zeros."""
    data, quant = tensor.data, tensor.quant
    if data is None or not tensor.dtype.has_numpy:
        return np.zeros(tensor.static_shape, np.int64)
    centred = data.astype(np.int64)
    return centred - _broadcast(quant.zero_point, quant.axis, centred) if quant else centred


def _broadcast(factors: np.ndarray, axis: int, values: np.ndarray) -> np.ndarray:
    """Per-channel factors, shaped to meet the values; the first one where they do not fit."""
    along = [-1 if at == axis else 1 for at in range(values.ndim)]
    if values.ndim and factors.size == values.shape[axis]:
        return factors.reshape(along)
    return factors.reshape(-1)[:1].astype(np.float32).sum().astype(factors.dtype)


def _drop_conversion(op: Op) -> None:
    op.intermediates, op.requantization = [], None
    source = op.input(0)
    floats = source is not None and source.dtype is op.outputs[0].dtype is DType.FLOAT32
    if op.kind in _CONVERSIONS and floats:
        op.kind, op.attrs = "RESHAPE", ReshapeAttrs(op.outputs[0].static_shape)
