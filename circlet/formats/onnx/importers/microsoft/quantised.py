"""Quantised operators that the standard has no form of, as those that it has."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.quantisation import MICROSOFT, dequantised, quantised
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import standard, standards
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor

_WINDOWS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def scaled_product(
    node: Node,
    operands: tuple[Tensor, Tensor],
    scales: tuple[Tensor, Tensor],
    zeros: tuple[Tensor | None, Tensor | None],
    bias: Tensor | None,
) -> Tensor:
    """The exact product of whole numbers, scaled once, and a bias."""
    sums = standard(node, "MatMulInteger", [*operands, *zeros])
    factor = node.op("MUL", list(scales))
    made = node.op("MUL", [node.cast(sums, DType.FLOAT32), factor])
    return made if bias is None else node.op("ADD", [made, bias])


@importer("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_mat_mul(node: Node) -> Tensor:
    x, scale, zero = standards(node, "DynamicQuantizeLinear", [node[0]], 3)
    zeros = (zero, node.optional(3))
    return scaled_product(node, (x, node[1]), (scale, node[2]), zeros, node.optional(4))


@importer("MatMulIntegerToFloat", domain=MICROSOFT)
def _mat_mul_to_float(node: Node) -> Tensor:
    zeros = (node.optional(4), node.optional(5))
    return scaled_product(node, (node[0], node[1]), (node[2], node[3]), zeros, node.optional(6))


@importer("QLinearConv", domain=MICROSOFT)
def _qlinear_conv(node: Node) -> Tensor:
    """As the standard's, of images whose channels may be last."""
    is_last = bool(node.whole("channels_last"))
    given = {name: node.attributes[name] for name in _WINDOWS if name in node.attributes}
    if not is_last:
        return standard(node, "QLinearConv", node.inputs, **given)
    image = dequantised(node, node[0], node[1], node.optional(2), 0)
    weights = dequantised(node, node[3], node[4], node.optional(5), 0)
    bias, steps = node.optional(8), None
    if bias is not None:
        if node[1].data is None or node[4].data is None:
            raise NotLoweredError("scales are computed")
        steps = node.const(node[1].data.reshape(-1) * node[4].data.reshape(-1), np.float32)
        bias = dequantised(node, bias, steps, None, 0)
    made = standard(node, "Conv", [node.channels_first(image), weights, bias], **given)
    return quantised(node, node.channels_last(made), node[6], node[7], 0)


@importer("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(node: Node) -> Tensor:
    x, y = (dequantised(node, node[at], node[at + 1], node[at + 2], 0) for at in (1, 4))
    return quantised(node, standard(node, "Where", [node[0], x, y]), node[7], node[8], 0)


@importer("QLinearReduceMean", domain=MICROSOFT)
def _qlinear_reduce_mean(node: Node) -> Tensor:
    x = dequantised(node, node[0], node[1], node.optional(2), 0)
    zero = node.optional(4)
    zero = node.const(0, node[0].dtype.numpy) if zero is None else zero
    axes = [node.const(node.ints("axes") or (), np.int64)] if node.ints("axes") else []
    made = standard(node, "ReduceMean", [x, *axes], keepdims=node.whole("keepdims", 1))
    return quantised(node, made, node[3], zero, 0)


@importer("MulInteger", domain=MICROSOFT)
def _mul_integer(node: Node) -> Tensor:
    factors = []
    for at in (0, 2):
        wide, zero = node.cast(node[at], DType.INT32), node.optional(at + 1)
        if zero is not None:
            wide = node.op("SUB", [wide, node.cast(zero, DType.INT32)])
        factors.append(wide)
    return node.op("MUL", factors)


@importer("ReduceSumInteger", domain=MICROSOFT)
def _reduce_sum_integer(node: Node) -> Tensor:
    axes = [node.const(node.ints("axes") or (), np.int64)] if node.ints("axes") else []
    wide = node.cast(node[0], DType.INT32)
    return standard(node, "ReduceSum", [wide, *axes], keepdims=node.whole("keepdims", 1))
