"""Comparisons and logic: EQUAL, NOT_EQUAL, GREATER, LESS, ... and LOGICAL_AND, OR, NOT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.elementwise import (
    BROADCASTS,
    element_cost,
    evaluate_scalar,
    infer_broadcast,
    kind_of,
    unary,
)
from circlet.ops.expr import Call, Expr, Number, Param, Scalar, Var, call
from circlet.ops.fixed import down_params, rescale_down
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import affine, operand, present, same_dtypes, scale_of, zero_of

_BYTES = frozenset({DType.INT8, DType.UINT8})
_EQUALITIES = ("EQUAL", "NOT_EQUAL")
_STEP_BITS = 8
_STRINGS = {"EQUAL": np.equal, "NOT_EQUAL": np.not_equal}
_NUMBERS = "FLOAT32 FLOAT64 INT8 UINT8 INT16 INT32 INT64"


def _common(index: int) -> Call:
    """A stored operand times its own scale, with guard bits: both compare as real numbers."""
    centred = Var(index, "i32") - Param(f"zero{index}")
    return rescale_down(call("shl", centred, _STEP_BITS), f"input{index}")


def _is_scaled(op: Op) -> bool:
    """Whether operands compare as real numbers: of 16 bits where they are equal or not."""
    dtype = operand(op, 0).dtype
    return dtype in _BYTES or (dtype is DType.INT16 and op.kind in _EQUALITIES)


def comparison(function: str) -> Callable[[Op], Scalar]:
    """The scalar of a comparison: of plain numbers, or of rescaled stored values."""

    def scalar(op: Op) -> Scalar:
        if not _is_scaled(op):
            kind = kind_of(op)
            return Scalar(call(function, Var(0, kind), Var(1, kind)))
        tensors = [operand(op, 0), operand(op, 1)]
        params: dict[str, Number] = {}
        for index, tensor in enumerate(tensors):
            params |= {f"zero{index}": zero_of(tensor)} | down_params(
                f"input{index}", scale_of(tensor)
            )
        return Scalar(call(function, _common(0), _common(1)), params)

    return scalar


def _scales_below_one(op: Op) -> bool:
    tensors = [operand(op, 0), operand(op, 1)]
    return not _is_scaled(op) or all(2.0**-31 < scale_of(tensor) < 1 for tensor in tensors)


def _infer(op: Op) -> list[TensorType]:
    return [TensorType(DType.BOOL, infer_broadcast(op)[0].shape)]


def _binary(
    kind: str,
    scalar: Callable[[Op], Scalar],
    types: str,
    rules: tuple[Rule, ...] = (),
) -> None:
    def evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
        if operand(op, 0).dtype is DType.STRING:
            return [_STRINGS[kind](present(inputs[0]), present(inputs[1])).astype(bool)]
        return evaluate_scalar(scalar(op), op, inputs)

    register(
        OpDef(
            kind=kind,
            arity=(2, 2),
            required=2,
            dtypes=tuple(f"{name} {name} -> BOOL" for name in types.split()),
            infer=_infer,
            evaluate=evaluate,
            rules=(same_dtypes(0, 1), BROADCASTS, *rules),
            cost=element_cost,
            scalar=scalar,
        )
    )


_SCALES = (
    affine(0, 1),
    Rule("input-scales", _scales_below_one, "scales of compared values must be below 1"),
)
_COMPARISONS = {
    "EQUAL": "eq",
    "NOT_EQUAL": "ne",
    "GREATER": "gt",
    "GREATER_EQUAL": "ge",
    "LESS": "lt",
    "LESS_EQUAL": "le",
}
for _kind, _function in _COMPARISONS.items():
    _types = f"{_NUMBERS} BOOL STRING" if _function in ("eq", "ne") else _NUMBERS
    _binary(_kind, comparison(_function), _types, _SCALES)


def _logic(build: Callable[..., Expr]) -> Callable[[Op], Scalar]:
    def scalar(op: Op) -> Scalar:
        return Scalar(build(*(Var(index, "i32") for index in range(len(op.inputs)))))

    return scalar


_binary("LOGICAL_AND", _logic(lambda a, b: call("min", a, b)), "BOOL")
_binary("LOGICAL_OR", _logic(lambda a, b: call("max", a, b)), "BOOL")
unary(
    "LOGICAL_NOT",
    _logic(lambda x: x.equals(0)),
    "BOOL",
    numerics="exact",
)
