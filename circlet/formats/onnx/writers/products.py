"""Matrix products."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.writers.convolution import bias_value
from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, Order, Value, is_quantised
from circlet.ir import DType, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs


def _rows(op: Written, data: Tensor, depth: int) -> Value:
    """The data as a matrix of rows."""
    if len(data.shape) == 2 and data.shape[1] == depth:
        return op.real(data)
    flat = op.reshape(op.graph.row_major(data), [-1, depth])
    return op.graph.dequantised(data, flat, (0, 1)) if is_quantised(data) else flat


@writes("FULLY_CONNECTED")
def _fully_connected(op: Written) -> None:
    attrs, data, weights = op.attrs(FullyConnectedAttrs), op[0], op[1]
    if attrs.weights_format != "DEFAULT":
        raise NotWrittenError(f"its weights are stored as {attrs.weights_format}")
    if data.dtype.is_float and weights.dtype is DType.UINT8:
        weights = _as_signed(weights)
    bias = bias_value(op, op.op.input(2), data, weights)
    width, depth = weights.static_shape
    if attrs.keep_num_dims and len(data.shape) != 2:
        made = op.node("MatMul", [op.real(data), op.real(weights, (1, 0))])
        made = op.node("Add", [made, *bias]) if bias else made
    else:
        made = op.node("Gemm", [_rows(op, data, depth), op.real(weights), *bias], transB=1)
    if len(op.result.shape) != 2 and not attrs.keep_num_dims:
        made = op.reshape(made, [*op.sizes(op.result)[:-1], width])
    op.finish(made, attrs.activation)


def _as_signed(weights: Tensor) -> Tensor:
    """UINT8 weights of float layers hold signed numbers, as old converters stored them."""
    if weights.data is None or weights.quant is None:
        raise NotWrittenError("its weights of UINT8 are computed in a run")
    quant = Quantization.per_channel(weights.quant.scale, weights.quant.axis)
    return constant(weights.name, weights.data.view(np.int8), quant)


def _swapped(rank: int) -> Order:
    return (*range(rank - 2), rank - 1, rank - 2)


@writes("BATCH_MATMUL")
def _batch_matmul(op: Written) -> None:
    attrs, left, right = op.attrs(BatchMatMulAttrs), op[0], op[1]
    orders = [
        _swapped(len(tensor.shape)) if swaps else None
        for tensor, swaps in ((left, attrs.adj_x), (right, attrs.adj_y))
    ]
    kind = "Gemm" if len(left.shape) == len(right.shape) == 2 else "MatMul"
    op.give(op.node(kind, [op.real(left, orders[0]), op.real(right, orders[1])]))
