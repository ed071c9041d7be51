"""Element types, forms and rules that StableHLO kinds have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.expr import Expr, Var, call
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    moves_bytes,
    operand,
    ranked,
    sizes_agree,
    when_ranked,
)

MANY = 1 << 16
FLOATS = ("FLOAT32", "FLOAT16", "FLOAT64")
SIGNED = ("INT8", "INT16", "INT32", "INT64")
INTEGERS = (*SIGNED, "UINT8", "UINT16", "UINT32", "UINT64")
NUMBERS = (*FLOATS, *INTEGERS)
LITERT = (*NUMBERS, "BOOL")
INDICES = ("INT32", "INT64")

# What expressions compute elements of each type in; others have no vector code.
KINDS = {
    DType.FLOAT32: "f32",
    DType.INT64: "i64",
    **dict.fromkeys((DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL), "i32"),
}


def forms(types: Sequence[str], inputs: int, result: str = "") -> tuple[str, ...]:
    """Forms of `inputs` operands of one type; the result has it too where none is named."""
    return tuple(f"{' '.join([name] * inputs)} -> {result or name}" for name in types)


def variables(op: Op, kind: str) -> list[Var]:
    """A variable for each operand."""
    return [Var(index, kind) for index in range(len(op.inputs))]


def narrowed(value: Expr, dtype: DType) -> Expr:
    """What a type holds of a whole number that was computed in 32 bits; it wraps."""
    if dtype in (DType.INT8, DType.INT16):
        bits = 32 - dtype.bits
        return call("shr", call("shl", value, bits), bits)
    if dtype is DType.UINT8:
        return call("and", value, 255)
    return call("min", value, 1) if dtype is DType.BOOL else value


def same_sizes(*inputs: int) -> Rule:
    """Rule: the named inputs have equal sizes; StableHLO broadcasts nothing by itself."""

    def holds(op: Op) -> bool:
        first, *rest = (operand(op, index).shape for index in inputs)
        return all(sizes_agree(first, shape) for shape in rest)

    return when_ranked("same-sizes", holds, "the operands must have equal sizes")


def common_shape(op: Op, *inputs: int) -> Shape:
    """The sizes of operands that agree, as far as any of them is known."""
    shapes = [operand(op, index).shape for index in inputs]
    return tuple(
        next((size for size in sizes if size is not None), None)
        for sizes in zip(*shapes, strict=True)
    )


def as_stated(op: Op) -> list[TensorType]:
    """The output as the file states it, which is what says its sizes."""
    return [TensorType(tensor.dtype, tensor.shape) for tensor in op.outputs]


def is_static(shape: Shape) -> bool:
    """Whether every size is known."""
    return None not in shape


def distinct_axes(axes: Sequence[int], rank: int) -> bool:
    """Whether each is an axis, and none is named twice."""
    return len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes)


_MISFITS = (ValueError, LookupError, ArithmeticError, RuntimeError)


def define(record: OpDef) -> None:
    """Register a kind that copes with operands whose sizes, or ranks, only a run tells.

    Rules see to it before a run that operands and options fit; they are asked again where operands
    turn out to have other sizes than a file states.
    """

    def infer(op: Op) -> list[TensorType]:
        try:
            return record.infer(op)
        except _MISFITS as error:
            why = str(error)
            raise GraphError("operands do not fit the options", where=op.name, why=why) from None

    def evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
        pairs = zip(op.inputs, arrays, strict=True)
        if all(t is None or a is None or (t.has_rank and t.shape == a.shape) for t, a in pairs):
            return record.evaluate(op, arrays)
        known = _at_run(op, arrays)
        for rule in record.rules:
            if not rule.holds(known):
                raise GraphError(rule.message, where=op.name)
        return record.evaluate(known, arrays)

    def cost(op: Op) -> Cost:
        try:
            return record.cost(op) if ranked(op) else moves_bytes(op)
        except _MISFITS:
            return moves_bytes(op)

    register(replace(record, infer=infer_ranked(infer), evaluate=evaluate, cost=cost))


def _at_run(op: Op, arrays: Arrays) -> Op:
    """An op whose operands have the sizes of arrays."""
    inputs = [
        None
        if tensor is None or array is None
        else replace(tensor, shape=array.shape, default_shape=None, has_rank=True)
        for tensor, array in zip(op.inputs, arrays, strict=True)
    ]
    return replace(op, inputs=inputs)
