"""Quantisation. QLinear operators are the real ones between DequantizeLinear and QuantizeLinear.

Scales and zero points of an axis are made as wide as what they belong to. The pass `fuse-qdq` gives
the integers to integer kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import find_importer, importer
from circlet.ir import DType, Tensor
from circlet.ops.onnx.quantisation import TYPES
from circlet.ops.onnx.record import PREFIX, OnnxAttrs

MICROSOFT = "com.microsoft"
_STORED = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32})


def _along(node: Node, values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Scales or zero points of a whole tensor, or as wide as `x` where an axis has them."""
    if values.data is None:
        if values.shape not in ((), (1,)) or not node.rank(x):
            raise NotLoweredError("scales of an axis are computed")
        return values
    if values.elements == 1:
        return node.const(values.data.reshape(()))
    if len(values.shape) != 1:
        raise NotLoweredError("scales are those of blocks")
    rank = node.rank(x)
    place = node.axis(axis, rank)
    return node.const(values.data.reshape([-1 if at == place else 1 for at in range(rank)]))


def dequantised(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Stored values as FLOAT32."""
    if x.dtype not in _STORED or scale.dtype is not DType.FLOAT32:
        raise NotLoweredError("only integers of up to 32 bits become FLOAT32 so")
    zero = node.const(0, x.dtype.numpy) if zero is None else zero
    operands = [x, _along(node, scale, x, axis), _along(node, zero, x, axis)]
    made = node.op("CUSTOM", operands, OnnxAttrs(), DType.FLOAT32, f"{PREFIX}DequantizeLinear")
    if all(tensor.data is not None for tensor in operands):
        node.graph.fixed.add(made)
    return made


def quantised(node: Node, x: Tensor, scale: Tensor, zero: Tensor, axis: int) -> Tensor:
    """FLOAT32 as stored values of the type of the zero point."""
    if zero.dtype not in _STORED - {DType.INT32} or not x.dtype is scale.dtype is DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 becomes integers of up to 32 bits so")
    operands = [x, _along(node, scale, x, axis), _along(node, zero, x, axis)]
    return node.op("CUSTOM", operands, OnnxAttrs(), zero.dtype, f"{PREFIX}QuantizeLinear")


@importer("DequantizeLinear", domain=MICROSOFT)
@importer("DequantizeLinear")
def _dequantize(node: Node) -> Tensor:
    if node.whole("block_size"):
        raise NotLoweredError("scales are those of blocks")
    return dequantised(node, node[0], node[1], node.optional(2), node.whole("axis", 1))


@importer("QuantizeLinear", domain=MICROSOFT)
@importer("QuantizeLinear")
def _quantize(node: Node) -> Tensor:
    if node.whole("block_size") or node.whole("precision"):
        raise NotLoweredError("scales are those of blocks, or the precision is stated")
    zero = node.optional(2)
    if zero is None:
        dtype = TYPES.get(node.whole("output_dtype") or 2)
        if dtype is None:
            raise NotLoweredError("the result has a type that is not stored so")
        zero = node.const(0, dtype)
    return quantised(node, node[0], node[1], zero, node.whole("axis", 1))


@importer("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node) -> list[Tensor]:
    from circlet.ops.reduce import ReducerAttrs

    x, zero = node[0], node.const(0, np.float32)
    axes = node.const(range(node.rank(x)), np.int32)
    ends = [node.op(kind, [x, axes], ReducerAttrs(False)) for kind in ("REDUCE_MIN", "REDUCE_MAX")]
    low, high = node.op("MINIMUM", [ends[0], zero]), node.op("MAXIMUM", [ends[1], zero])
    scale = node.op("DIV", [node.op("SUB", [high, low]), node.const(255, np.float32)])
    one = node.const(1, np.float32)
    is_flat = node.op("EQUAL", [scale, zero], None, DType.BOOL)
    divisor = node.op("SELECT_V2", [is_flat, one, scale], None, DType.FLOAT32)
    place = node.op("DIV", [node.op("NEG", [low]), divisor])
    point = node.op(
        "CUSTOM",
        [place, one, node.const(0, np.uint8)],
        OnnxAttrs(),
        DType.UINT8,
        f"{PREFIX}QuantizeLinear",
    )
    return [quantised(node, x, divisor, point, 0), scale, point]


def _between(
    node: Node, kind: str, inputs: Sequence[Tensor | None], place: tuple[Tensor, Tensor] | None
) -> Tensor:
    """A real operator of the default domain, its result quantised with scale and zero point."""
    function = find_importer("", kind, node.graph.state.opsets.get("", 1))
    assert function is not None
    given, node.inputs = node.inputs, list(inputs)
    try:
        made = function(node)
    finally:
        node.inputs = given
    assert isinstance(made, Tensor)
    return made if place is None else quantised(node, made, *place, 0)


def _real(node: Node, first: int, axis: int = 0) -> Tensor:
    """Operands `first` to `first + 2`, values with scale and zero point, as FLOAT32."""
    return dequantised(node, node[first], node[first + 1], node.optional(first + 2), axis)


def _bias(node: Node, bias: Tensor | None, scales: tuple[Tensor, Tensor]) -> Tensor | None:
    """A bias of INT32 in steps of the products of two scales."""
    if bias is None:
        return None
    data, weights = (scale.data for scale in scales)
    if data is None or weights is None:
        raise NotLoweredError("scales are computed")
    steps = node.const((data.reshape(-1) * weights.reshape(-1)), np.float32)
    return dequantised(node, bias, steps, None, 0)


@importer("QLinearConv")
def _qlinear_conv(node: Node) -> Tensor:
    bias = _bias(node, node.optional(8), (node[1], node[4]))
    return _between(node, "Conv", [_real(node, 0), _real(node, 3), bias], (node[6], node[7]))


@importer("QLinearMatMul", domain=MICROSOFT)
@importer("QLinearMatMul")
def _qlinear_mat_mul(node: Node) -> Tensor:
    operands = [_real(node, 0, -2), _real(node, 3, -1)]
    return _between(node, "MatMul", operands, (node[6], node[7]))


@importer("QGemm", domain=MICROSOFT)
def _qgemm(node: Node) -> Tensor:
    axis = 0 if node.whole("transB") else 1
    bias = _bias(node, node.optional(6), (node[1], node[4]))
    scale, zero = node.optional(7), node.optional(8)
    place = None if scale is None or zero is None else (scale, zero)
    if node.real("alpha", 1) != 1:
        raise NotLoweredError("the product has a factor")
    return _between(node, "Gemm", [_real(node, 0), _real(node, 3, axis), bias], place)


def _zero(node: Node, index: int, like: Tensor) -> Tensor:
    zero = node.optional(index)
    return node.const(0, like.dtype.numpy) if zero is None else zero


def _of_two(kind: str) -> Callable[[Node], Tensor]:
    def run(node: Node) -> Tensor:
        operands = [_real(node, 0), _real(node, 3)]
        return _between(node, kind, operands, (node[6], _zero(node, 7, node[0])))

    return run


def _of_one(kind: str) -> Callable[[Node], Tensor]:
    def run(node: Node) -> Tensor:
        place, x = (node[3], _zero(node, 4, node[0])), _real(node, 0)
        if not node.whole("channels_last"):
            return _between(node, kind, [x], place)
        made = _between(node, kind, [node.channels_first(x)], None)
        return quantised(node, node.channels_last(made), *place, 0)

    return run


@importer("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: Node) -> Tensor:
    operands = [_real(node, first) for first in range(2, len(node.inputs), 3)]
    return _between(node, "Concat", operands, (node[0], node[1]))


for _kind in ("Add", "Mul"):
    importer(f"QLinear{_kind}", domain=MICROSOFT)(_of_two(_kind))
for _kind in ("Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool", "Softmax"):
    importer(f"QLinear{_kind}", domain=MICROSOFT)(_of_one(_kind))
