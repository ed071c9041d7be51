"""Functions of one element or several, in whatever order of axes their operands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, Value, identity, is_quantised
from circlet.ir import DType, Tensor
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.quotient import DivAttrs
from circlet.ops.smooth import GeluAttrs

_UNARY = {
    **{kind: kind.capitalize() for kind in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "NEG")},
    **{kind: kind.capitalize() for kind in ("SIN", "SQRT", "TANH", "SIGN", "ROUND", "ELU", "RELU")},
    "LOGISTIC": "Sigmoid",
    "HARD_SWISH": "HardSwish",
    "LOGICAL_NOT": "Not",
}
_BINARY = {
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "EQUAL": "Equal",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "BITWISE_XOR": "BitwiseXor",
}
_ARITHMETIC: dict[str, tuple[str, type[AddAttrs | MulAttrs | DivAttrs]]] = {
    "ADD": ("Add", AddAttrs),
    "SUB": ("Sub", SubAttrs),
    "MUL": ("Mul", MulAttrs),
    "DIV": ("Div", DivAttrs),
}


def computed(
    op: Written, operands: Sequence[Tensor], compute: Callable[[list[Value]], Value]
) -> None:
    """Write what computes element by element over real operands."""
    order = op.order(operands)
    op.give(compute([op.spread(tensor, order) for tensor in operands]), order)


@writes(*_UNARY)
def _unary(op: Written) -> None:
    computed(op, [op[0]], lambda x: op.node(_UNARY[op.op.kind], x))


@writes(*_BINARY)
def _binary(op: Written) -> None:
    computed(op, [op[0], op[1]], lambda xs: op.node(_BINARY[op.op.kind], xs))


@writes(*_ARITHMETIC)
def _arithmetic(op: Written) -> None:
    kind, attrs = _ARITHMETIC[op.op.kind]
    order = op.order([op[0], op[1]])
    made = op.node(kind, [op.spread(tensor, order) for tensor in (op[0], op[1])])
    op.finish(made, op.attrs(attrs).activation, order)


@writes("NOT_EQUAL")
def _not_equal(op: Written) -> None:
    computed(op, [op[0], op[1]], lambda xs: op.node("Not", [op.node("Equal", xs)]))


@writes("SQUARED_DIFFERENCE")
def _squared_difference(op: Written) -> None:
    def compute(operands: list[Value]) -> Value:
        difference = op.node("Sub", operands)
        return op.node("Mul", [difference, difference])

    computed(op, [op[0], op[1]], compute)


@writes("SQUARE")
def _square(op: Written) -> None:
    computed(op, [op[0]], lambda x: op.node("Mul", [x[0], x[0]]))


@writes("RSQRT")
def _rsqrt(op: Written) -> None:
    """Of stored numbers below zero it is what it is of zero: the largest that can be stored."""

    def compute(operands: list[Value]) -> Value:
        if is_quantised(op[0]):
            operands = [op.node("Relu", operands)]
        return op.node("Reciprocal", [op.node("Sqrt", operands)])

    computed(op, [op[0]], compute)


@writes("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _clamp(op: Written) -> None:
    computed(op, [op[0]], lambda x: op.activated(x[0], op.op.kind, op.real_dtype(op[0])))


@writes("LEAKY_RELU")
def _leaky_relu(op: Written) -> None:
    alpha = op.attrs(LeakyReluAttrs).alpha
    computed(op, [op[0]], lambda x: op.node("LeakyRelu", x, alpha=float(alpha)))


@writes("PRELU")
def _prelu(op: Written) -> None:
    computed(op, [op[0], op[1]], lambda xs: op.node("PRelu", xs))


@writes("GELU")
def _gelu(op: Written) -> None:
    form = "tanh" if op.attrs(GeluAttrs).approximate else "none"
    computed(op, [op[0]], lambda x: op.node("Gelu", x, approximate=form))


@writes("FLOOR_DIV")
def _floor_div(op: Written) -> None:
    """Integers are divided towards zero by ONNX, so what the division leaves is taken off first."""

    def compute(operands: list[Value]) -> Value:
        if op.result.dtype.is_float or is_quantised(op.result):
            return op.node("Floor", [op.node("Div", operands)])
        rest = op.node("Mod", operands)
        return op.node("Div", [op.node("Sub", [operands[0], rest]), operands[1]])

    computed(op, [op[0], op[1]], compute)


@writes("FLOOR_MOD")
def _floor_mod(op: Written) -> None:
    def compute(operands: list[Value]) -> Value:
        if not op.result.dtype.is_float and not is_quantised(op.result):
            return op.node("Mod", operands)
        rest, divisor = op.node("Mod", operands, fmod=1), operands[1]
        zero = op.constant(0, np.float32)
        signs = [op.node("Less", [value, zero]) for value in (rest, divisor)]
        differ = op.node(
            "And", [op.node("Xor", signs), op.node("Not", [op.node("Equal", [rest, zero])])]
        )
        return op.node("Where", [differ, op.node("Add", [rest, divisor]), rest])

    computed(op, [op[0], op[1]], compute)


@writes("ADD_N")
def _add_n(op: Written) -> None:
    def compute(operands: list[Value]) -> Value:
        total = operands[0]
        for operand in operands[1:]:
            total = op.node("Add", [total, operand])
        return total

    computed(op, op.inputs, compute)


@writes("ATAN2")
def _atan2(op: Written) -> None:
    """The angle of y / x, moved by half a turn where x is below zero."""

    def compute(operands: list[Value]) -> Value:
        y, x = operands
        dtype = op.result.dtype.numpy
        zero, half = op.constant(0, dtype), op.constant(np.pi, dtype)
        angle = op.node("Atan", [op.node("Div", [y, x])])
        below = op.node("Less", [y, zero])
        turn = op.node("Where", [below, op.node("Neg", [half]), half])
        moved = op.node("Where", [op.node("Less", [x, zero]), op.node("Add", [angle, turn]), angle])
        both = op.node("And", [op.node("Equal", [value, zero]) for value in (x, y)])
        return op.node("Where", [both, zero, moved])

    computed(op, [op[0], op[1]], compute)


@writes("CAST")
def _cast(op: Written) -> None:
    order = op.order([op[0]])
    target = DType(op.attrs(CastAttrs).out_data_type)
    if target is not op.result.dtype:
        target = op.result.dtype
    op.give_stored(op.cast(op.value(op[0], order), target), order)


@writes("SELECT", "SELECT_V2")
def _select(op: Written) -> None:
    """A condition of SELECT that is a list stands for the first axis."""
    flag, left, right = op[0], op[1], op[2]
    rank = len(op.result.shape)
    if op.op.kind == "SELECT" and len(flag.shape) == 1 and rank > 1:
        wide = op.reshape(op.value(flag), [-1, *[1] * (rank - 1)])
        op.give(op.node("Where", [wide, op.real(left), op.real(right)]))
        return
    same = all(_means_the_same(tensor, op.result) for tensor in (left, right))
    same = same and not (is_quantised(op.result) and op.result.dtype is not DType.UINT8)
    order = op.order([flag, left, right])
    values = [op.spread(tensor, order, stored=same) for tensor in (left, right)]
    made = op.node("Where", [op.spread(flag, order, stored=True), *values])
    (op.give_stored if same else op.give)(made, order)


def _means_the_same(left: Tensor, right: Tensor) -> bool:
    if not is_quantised(right) or left.quant is None:
        return not is_quantised(left) and not is_quantised(right)
    return left.quant.same_as(right.quant)


@writes("ZEROS_LIKE")
def _zeros_like(op: Written) -> None:
    zero = np.zeros(1, op.result.dtype.numpy)
    if op.result.has_rank and None not in op.result.shape:
        op.give_stored(op.constant(np.zeros(op.result.static_shape, op.result.dtype.numpy)))
        return
    op.give_stored(op.node("ConstantOfShape", [op.node("Shape", [op.value(op[0])])], value=zero))


@writes("RIGHT_SHIFT")
def _right_shift(op: Written) -> None:
    """An arithmetic shift, which is a division by a power of two that rounds down."""
    if op.result.dtype is not DType.INT32:
        raise NotWrittenError("only INT32 is shifted so")
    left, right = (op.cast(op.value(tensor), DType.INT64) for tensor in (op[0], op[1]))
    divisor = op.node("Pow", [op.ints(2), right])
    rest = op.node("Mod", [left, divisor])
    quotient = op.node("Div", [op.node("Sub", [left, rest]), divisor])
    op.give_stored(op.cast(quotient, DType.INT32), identity(len(op.result.shape)))
