"""Element-wise ops as one mechanism: an expression, broadcasting, and the record around it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.expr import KINDS, Expr, Scalar, Var, call, clamp, evaluate
from circlet.ops.opdef import (
    Arrays,
    Cost,
    NoAttrs,
    OpDef,
    QuantRule,
    Rule,
    TensorType,
    register,
)
from circlet.ops.operands import count, operand, present, same_as_first, same_dtypes
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of

_FREE = QuantRule()
# Of an element, where it is a function that is computed in several steps.
_OPERATIONS = dict.fromkeys(("EXP", "LOG", "TANH", "LOGISTIC", "GELU", "ELU"), 16)
_OPERATIONS |= dict.fromkeys(("DIV", "FLOOR_DIV", "FLOOR_MOD", "SQRT", "RSQRT"), 16)
_OPERATIONS |= {"SIN": 32, "COS": 32, "ATAN2": 64, "POW": 128}


def kind_of(op: Op) -> str:
    """The expression kind an op is computed in: by the type of its first input."""
    return KINDS.get(operand(op, 0).dtype, "i32")


def evaluate_scalar(scalar: Scalar, op: Op, inputs: Arrays) -> list[np.ndarray]:
    """The op's result by its scalar expression, narrowed to the output's type."""
    arrays = [present(array) for array in inputs]
    try:
        result = evaluate(scalar.expr, arrays, scalar.params)
    except ValueError as error:
        raise GraphError("input sizes do not broadcast", where=op.name, why=str(error)) from None
    return [np.asarray(result).astype(op.outputs[0].dtype.numpy, copy=False)]


def activated(value: Expr, op: Op) -> Scalar:
    """A float or plain integer value with the op's fused activation as a clamp."""
    low, high = FLOAT_ACTIVATION_RANGES[activation_of(op)]
    if low == -np.inf:
        return Scalar(value)
    if high == np.inf:
        return Scalar(call("max", value, low))
    return Scalar(clamp(value, low, high))


def plain(build: Callable[..., Expr]) -> Callable[[Op], Scalar]:
    """The scalar of a kind that is the same function of its operands in every number form."""

    def scalar(op: Op) -> Scalar:
        kind = kind_of(op)
        return activated(build(*(Var(index, kind) for index in range(len(op.inputs)))), op)

    return scalar


def broadcast_shape(first: Shape, second: Shape) -> Shape | None:
    """Sizes of two operands spread over each other, None where they cannot be."""
    rank = max(len(first), len(second))
    pairs = zip(_padded(first, rank), _padded(second, rank), strict=True)
    sizes = [_broadcast_size(a, b) for a, b in pairs]
    return None if -1 in sizes else tuple(sizes)


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _broadcast_size(first: int | None, second: int | None) -> int | None:
    """One size of a broadcast; None when unknown, -1 when impossible."""
    if first == 1 or first == second:
        return second
    if second == 1:
        return first
    if first is None or second is None:
        return first if second is None else second
    return -1


def infer_broadcast(op: Op) -> list[TensorType]:
    """One output of input 0's type, as large as both inputs spread over each other."""
    first, second = operand(op, 0), operand(op, 1)
    shape = broadcast_shape(first.shape, second.shape)
    if shape is None:
        raise GraphError(f"{first!r} and {second!r} do not broadcast", where=op.name)
    return [TensorType(first.dtype, shape)]


def _broadcasts(op: Op) -> bool:
    return broadcast_shape(operand(op, 0).shape, operand(op, 1).shape) is not None


def _known_activation(op: Op) -> bool:
    return activation_of(op) in FLOAT_ACTIVATION_RANGES


BROADCASTS = Rule("broadcast", _broadcasts, "sizes must be equal or 1, counted from the last")
ACTIVATION = Rule("activation", _known_activation, "the fused activation is not defined here")


def element_cost(op: Op) -> Cost:
    """Bytes moved, one operation per output element, and what functions take besides."""
    tensors = [*(t for t in op.inputs if t is not None), *op.outputs]
    work = count(op.outputs[0].static_shape) or 0
    moved = sum(tensor.size_bytes for tensor in tensors)
    return Cost(arithmetic=work, bytes=moved, operations=work * _OPERATIONS.get(op.kind, 0))


def binary(
    kind: str,
    scalar: Callable[[Op], Scalar],
    types: str,
    *,
    attrs: type = NoAttrs,
    rules: tuple[Rule, ...] = (),
    numerics: str = "exact",
    evaluate: Callable[[Op, Arrays], list[np.ndarray]] | None = None,
) -> OpDef:
    """Register a kind of two broadcast operands of one type; `types` names those types.

    `evaluate` overrides the scalar for forms that have none.
    """

    def by_scalar(op: Op, inputs: Arrays) -> list[np.ndarray]:
        return evaluate_scalar(scalar(op), op, inputs)

    return register(
        OpDef(
            kind=kind,
            attrs=attrs,
            arity=(2, 2),
            required=2,
            dtypes=tuple(f"{name} {name} -> {name}" for name in types.split()),
            infer=infer_broadcast,
            evaluate=evaluate or by_scalar,
            rules=(same_dtypes(0, 1), BROADCASTS, ACTIVATION, *rules),
            numerics=numerics,
            cost=element_cost,
            scalar=scalar,
        )
    )


def unary(
    kind: str,
    scalar: Callable[[Op], Scalar],
    types: str,
    *,
    attrs: type = NoAttrs,
    rules: tuple[Rule, ...] = (),
    numerics: str = "tolerance",
    quant: QuantRule = _FREE,
    evaluate: Callable[[Op, Arrays], list[np.ndarray]] | None = None,
) -> OpDef:
    """Register a kind of one operand; `evaluate` overrides the scalar for table forms."""

    def by_scalar(op: Op, inputs: Arrays) -> list[np.ndarray]:
        return evaluate_scalar(scalar(op), op, inputs)

    return register(
        OpDef(
            kind=kind,
            attrs=attrs,
            arity=(1, 1),
            dtypes=tuple(f"{name} -> {name}" for name in types.split()),
            infer=same_as_first,
            evaluate=evaluate or by_scalar,
            rules=rules,
            numerics=numerics,
            quant=quant,
            cost=element_cost,
            scalar=scalar,
        )
    )
