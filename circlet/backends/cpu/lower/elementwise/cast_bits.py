"""CAST between whole numbers of one width, signed or not: the bits stay."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable, padded_copy
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    source, result = operand(op, 0).dtype, op.outputs[0].dtype
    whole = all(dtype.is_integer and dtype is not DType.BOOL for dtype in (source, result))
    if not whole or source.bits != result.bits:
        return "the bits change"
    return not_copyable(op.outputs[0])


def _lower(op: Op, context: Context) -> None:
    padded_copy(op, operand(op, 0), op.outputs[0], context)


LOWERINGS.add(Lowering("CAST", "cast_bits", _refuses, _lower, strided_output=True, rank=Rank.DENSE))
