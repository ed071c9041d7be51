"""Products and convolutions with what goes before and behind them."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.microsoft.activations import activated
from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import floats, scaled, standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.reduce import ReducerAttrs

_WINDOWS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOLS = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides")


@importer("TransposeMatMul", domain=MICROSOFT)
@importer("FusedMatMul", domain=MICROSOFT)
def _fused_mat_mul(node: Node) -> Tensor:
    a, b = (_batches_first(node, floats(node, i), f"transBatch{'AB'[i]}") for i in (0, 1))
    flips = [bool(node.whole(f"trans{name}")) for name in "AB"]
    if not node.is_fixed(b) and min(node.rank(a), node.rank(b)) >= 2:
        product = node.op("BATCH_MATMUL", [a, b], BatchMatMulAttrs(*flips))
    else:
        a, b = (_flipped(node, x, flip) for x, flip in zip((a, b), flips, strict=True))
        product = standard(node, "MatMul", [a, b])
    return scaled(node, product, node.real("alpha", 1))


def _batches_first(node: Node, x: Tensor, name: str) -> Tensor:
    """An operand whose rows stand before its batches, with the batches in front."""
    rank = node.rank(x)
    if not node.whole(name) or rank < 3:
        return x
    return node.transpose(x, [*range(1, rank - 1), 0, rank - 1])


def _flipped(node: Node, x: Tensor, flip: bool) -> Tensor:
    rank = node.rank(x)
    if not flip or rank < 2:
        return x
    return node.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _parameters(node: Node) -> list[float]:
    """The parameters of an activation; the standard's own where they are not given."""
    given = [node.attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [float(value) for value in given if value is not None]


def _activated(node: Node, product: Tensor) -> Tensor:
    name = node.text("activation")
    if name == "Selu" and node.attributes.get("activation_beta") is not None:
        raise NotLoweredError("Selu has no such parameter")
    return activated(node, product, name, _parameters(node))


@importer("FusedMatMulActivation", domain=MICROSOFT)
def _fused_mat_mul_activation(node: Node) -> Tensor:
    return _activated(node, _fused_mat_mul(node))


@importer("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: Node) -> Tensor:
    names = ("alpha", "beta", "transA", "transB")
    given = {name: node.attributes[name] for name in names if name in node.attributes}
    return _activated(node, standard(node, "Gemm", node.inputs, **given))


def _convolved(node: Node, x: Tensor) -> Tensor:
    given = {name: node.attributes[name] for name in _WINDOWS if name in node.attributes}
    return standard(node, "Conv", [x, node[1], node.optional(2)], **given)


def _completed(node: Node, made: Tensor) -> Tensor:
    """A convolution with what is added to it, behind the activation."""
    residual = node.optional(3)
    if residual is not None:
        made = node.op("ADD", [made, residual])
    parameters = node.attributes.get("activation_params") or []
    return activated(node, made, node.text("activation"), parameters)


@importer("FusedConv", domain=MICROSOFT)
def _fused_conv(node: Node) -> Tensor:
    return _completed(node, _convolved(node, node[0]))


@importer("NhwcFusedConv", domain=MICROSOFT)
@importer("NhwcConv", domain=MICROSOFT)
def _nhwc_conv(node: Node) -> Tensor:
    made = _convolved(node, node.channels_first(node[0]))
    return _completed(node, node.channels_last(made))


@importer("NhwcMaxPool", domain=MICROSOFT)
def _nhwc_max_pool(node: Node) -> Tensor:
    """Of bytes too, which FLOAT32 holds exactly."""
    given = {name: node.attributes[name] for name in _POOLS if name in node.attributes}
    image = node.channels_first(node.cast(node[0], DType.FLOAT32))
    return node.cast(node.channels_last(standard(node, "MaxPool", [image], **given)), node[0].dtype)


@importer("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def _conv_transpose(node: Node) -> Tensor:
    pads = node.known_ints(2)
    if pads is None and node.optional(2) is not None:
        raise NotLoweredError("the pads are computed in a run")
    names = (*_WINDOWS, "output_padding")
    given = {name: node.attributes[name] for name in names if name in node.attributes}
    given |= {} if pads is None else {"pads": list(pads)}
    return standard(node, "ConvTranspose", [node[0], node[1], node.optional(3)], **given)


@importer("CDist", domain=MICROSOFT)
def _distances(node: Node) -> Tensor:
    """|a - b|^2 as a^2 - 2ab + b^2, from every row of A to every row of B."""
    a, b, metric = floats(node, 0), floats(node, 1), node.text("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise NotLoweredError(f"distances are not measured as {metric}")
    last, keep = node.const([1], np.int32), ReducerAttrs(True)
    left, right = (node.op("SUM", [node.op("MUL", [x, x]), last], keep) for x in (a, b))
    product = node.op("BATCH_MATMUL", [scaled(node, a, -2), b], BatchMatMulAttrs(adj_y=True))
    total = node.op("ADD", [node.op("ADD", [product, left]), node.transpose(right, [1, 0])])
    squared = node.op("RELU", [total])  # rounding may leave it below zero
    return squared if metric == "sqeuclidean" else node.op("SQRT", [squared])
