"""Element-wise arithmetic, comparisons and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.formats.onnx.tensors import dtype_of
from circlet.ir import DType, Tensor

_UNARY = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "Neg": "NEG",
    "Not": "LOGICAL_NOT",
    "Round": "ROUND",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
    "Sigmoid": "LOGISTIC",
    "Relu": "RELU",
}
_BINARY = {
    "Add": "ADD",
    "Sub": "SUB",
    "Mul": "MUL",
    "Div": "DIV",
    "And": "LOGICAL_AND",
    "Or": "LOGICAL_OR",
    "BitwiseXor": "BITWISE_XOR",
}
_COMPARISONS = {
    "Equal": "EQUAL",
    "Less": "LESS",
    "Greater": "GREATER",
    "LessOrEqual": "LESS_EQUAL",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Xor": "NOT_EQUAL",
}


def _unary(record: str) -> Callable[[Node], Tensor]:
    return lambda node: node.op(record, [node[0]])


def _binary(record: str) -> Callable[[Node], Tensor]:
    return lambda node: node.op(record, [node[0], _spread(node)])


def _spread(node: Node) -> Tensor:
    """Operand 1; before operator set 7 it may lie from an axis on."""
    x, y, axis = node[0], node[1], node.attributes.get("axis")
    if node.opset >= 7 or axis is None:
        return y
    behind = node.rank(x) - node.axis(int(axis), node.rank(x)) - node.rank(y)
    if behind <= 0:
        return y
    return node.reshape(y, [*(-1 if n is None else n for n in y.shape), *[1] * behind])


def _comparison(record: str) -> Callable[[Node], Tensor]:
    return lambda node: node.op(record, [node[0], node[1]], dtype=DType.BOOL)


for _kind, _record in _UNARY.items():
    importer(_kind)(_unary(_record))
for _kind, _record in _BINARY.items():
    importer(_kind)(_binary(_record))
for _kind, _record in _COMPARISONS.items():
    importer(_kind)(_comparison(_record))


def _chain(record: str) -> Callable[[Node], Tensor]:
    def run(node: Node) -> Tensor:
        result = node[0]
        for index in range(1, len(node.inputs)):
            result = node.op(record, [result, node[index]])
        return result

    return run


importer("Max")(_chain("MAXIMUM"))
importer("Min")(_chain("MINIMUM"))
importer("Sum")(_chain("ADD"))


@importer("Mean")
def _mean(node: Node) -> Tensor:
    total = _chain("ADD")(node)
    if total.dtype is not DType.FLOAT32:
        raise NotLoweredError("the mean of such elements is not an operator of Circle")
    return node.op("DIV", [total, node.const(np.float32(len(node.inputs)))])


@importer("Pow")
def _pow(node: Node) -> Tensor:
    base, exponent = node[0], node[1]
    if exponent.data is not None and exponent.elements == 1 and base.dtype is DType.FLOAT32:
        if float(exponent.data.reshape(-1)[0]) == 2 and len(exponent.shape) <= len(base.shape):
            return node.op("MUL", [base, base])
        exponent = node.cast(exponent, DType.FLOAT32)
    return node.op("POW", [base, exponent])


@importer("Mod")
def _mod(node: Node) -> Tensor:
    """FLOOR_MOD has the sign of the divisor; that of sizes has none."""
    x, y = node[0], node[1]
    if not node.whole("fmod"):
        return node.op("FLOOR_MOD", [x, y])
    if x.dtype is not DType.FLOAT32:
        raise NotLoweredError("only of FLOAT32 have remainders the sign of the dividend")
    rest = node.op("FLOOR_MOD", [node.op("ABS", [x]), node.op("ABS", [y])])
    is_negative = node.op("LESS", [x, node.const(np.float32(0))], dtype=DType.BOOL)
    return node.op("SELECT_V2", [is_negative, node.op("NEG", [rest]), rest], dtype=x.dtype)


@importer("Reciprocal")
def _reciprocal(node: Node) -> Tensor:
    if node[0].dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is divided so")
    return node.op("DIV", [node.const(np.float32(1)), node[0]])


@importer("IsNaN")
def _is_nan(node: Node) -> Tensor:
    return node.op("NOT_EQUAL", [node[0], node[0]], dtype=DType.BOOL)


@importer("Where")
def _where(node: Node) -> Tensor:
    return node.op("SELECT_V2", [node[0], node[1], node[2]], dtype=node[1].dtype)


@importer("Cast")
def _cast(node: Node) -> Tensor:
    x, wanted = node[0], dtype_of(node.whole("to"), node.name)
    if x.dtype is DType.FLOAT16 and wanted is DType.FLOAT32:
        return node.op("DEQUANTIZE", [x], None, DType.FLOAT32)
    return node.cast(x, wanted)


@importer("CastLike")
def _cast_like(node: Node) -> Tensor:
    return node.cast(node[0], node[1].dtype)


@importer("Clip", since=6)
def _clip_of_attributes(node: Node) -> Tensor:
    limits = [node.attributes.get(name) for name in ("min", "max")]
    return _clipped(node, *(None if v is None else node.const(np.float32(v)) for v in limits))


@importer("Clip", since=11)
def _clip(node: Node) -> Tensor:
    return _clipped(node, node.optional(1), node.optional(2))


def _clipped(node: Node, low: Tensor | None, high: Tensor | None) -> Tensor:
    x = node[0]
    if _is(low, 0) and x.dtype is DType.FLOAT32 and (high is None or _is(high, 6)):
        return node.op("RELU" if high is None else "RELU6", [x])
    if low is not None:
        x = node.op("MAXIMUM", [x, low])
    return x if high is None else node.op("MINIMUM", [x, high])


def _is(tensor: Tensor | None, value: float) -> bool:
    return tensor is not None and tensor.data is not None and float(tensor.data) == value
