"""READ_VARIABLE and ASSIGN_VARIABLE: copies out of and into memory that lives on.

Nothing is copied where what is read, changed and assigned stays in that memory.
"""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable, padded_copy
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op
from circlet.ops.operands import operand


def _read(op: Op, context: Context) -> None:
    if not context.shares(operand(op, 0), op.outputs[0]):
        padded_copy(op, operand(op, 0), op.outputs[0], context)


def _assign(op: Op, context: Context) -> None:
    if not context.shares(operand(op, 1), operand(op, 0)):
        padded_copy(op, operand(op, 1), operand(op, 0), context)


LOWERINGS.add(
    Lowering(
        "READ_VARIABLE",
        "read_variable",
        refuses=lambda op, target: not_copyable(operand(op, 0)),
        lower=_read,
        strided_output=True,
    )
)


LOWERINGS.add(
    Lowering(
        "ASSIGN_VARIABLE",
        "assign_variable",
        refuses=lambda op, target: not_copyable(operand(op, 1)),
        lower=_assign,
        strided_inputs=True,
    )
)
