"""Matrices: products, and triangles."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import chosen, compared, counting, resized, size_of, widened
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs


@importer("MatMul")
def _mat_mul(node: Node) -> Tensor:
    x, y = node[0], node[1]
    if x.dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is multiplied so")
    ranks = node.rank(x), node.rank(y)
    if node.is_fixed(y) and ranks[1] == 2 and ranks[0] >= 2:
        weights = node.transpose(y, [1, 0])
        return node.op(
            "FULLY_CONNECTED", [x, weights, None], FullyConnectedAttrs(keep_num_dims=True)
        )
    left = _expanded(node, x, 0) if ranks[0] == 1 else x
    right = _expanded(node, y, 1) if ranks[1] == 1 else y
    product = node.op("BATCH_MATMUL", [left, right], BatchMatMulAttrs())
    dropped = [-2] * (ranks[0] == 1) + [-1] * (ranks[1] == 1)
    return _dropped(node, product, dropped)


def _expanded(node: Node, x: Tensor, axis: int) -> Tensor:
    return node.op("EXPAND_DIMS", [x, node.const(axis, np.int32)])


def _dropped(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    from circlet.ops.shape import SqueezeAttrs

    if not axes:
        return x
    rank = len(x.shape)
    return node.op("SQUEEZE", [x], SqueezeAttrs(tuple(axis + rank for axis in axes)))


@importer("Gemm")
def _gemm(node: Node) -> Tensor:
    """alpha * A * B + beta * C; with constant B, one FULLY_CONNECTED."""
    a, b, c = node[0], node[1], node.optional(2)
    if a.dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is multiplied so")
    if node.whole("transA"):
        a = node.transpose(a, [1, 0])
    alpha, beta = node.real("alpha", 1), node.real("beta", 1)
    bias = _bias(node, b, c, beta) if alpha == 1 else None
    if node.is_fixed(b):
        weights = b if node.whole("transB") else node.transpose(b, [1, 0])
        attrs = FullyConnectedAttrs(keep_num_dims=True)
        product = node.op("FULLY_CONNECTED", [a, weights, bias], attrs)
    else:
        attrs_of = BatchMatMulAttrs(adj_y=bool(node.whole("transB")))
        product, bias = node.op("BATCH_MATMUL", [a, b], attrs_of), None
    if alpha != 1:
        product = node.op("MUL", [product, node.const(np.float32(alpha))])
    if c is None or bias is not None:
        return product
    if beta != 1:
        c = node.op("MUL", [c, node.const(np.float32(beta))])
    return node.op("ADD", [product, c])


def _bias(node: Node, b: Tensor, c: Tensor | None, beta: float) -> Tensor | None:
    """C as a list of one value for each column, where it is such a constant."""
    if c is None or not node.is_fixed(c) or beta != 1:
        return None
    columns = b.shape[0 if node.whole("transB") else 1]
    if c.elements != columns or c.shape[-1:] != (columns,):
        return None
    return node.reshape(c, [-1]) if len(c.shape) != 1 else c


@importer("Trilu")
@importer("Trilu", domain=MICROSOFT)
def _trilu(node: Node) -> Tensor:
    """The elements on one side of a diagonal, others zero."""
    x, offset = node[0], node.optional(1)
    if node.rank(x) < 2:
        raise node.wrong("a triangle is taken of less than two axes")
    rows, columns = (counting(node, size_of(node, x, axis)) for axis in (-2, -1))
    place = node.op("SUB", [columns, widened(node, rows, 1)])
    start = node.const(0, np.int32)
    if offset is not None:
        start = resized(node, node.cast(offset, DType.INT32), [])
    side = "GREATER_EQUAL" if node.whole("upper", 1) else "LESS_EQUAL"
    zero = node.const(0, x.dtype.numpy)
    return chosen(node, compared(node, side, place, start), x, zero)
