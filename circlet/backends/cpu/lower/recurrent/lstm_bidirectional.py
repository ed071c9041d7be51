"""BIDIRECTIONAL_SEQUENCE_LSTM: a call of the LSTM kernels for each direction."""

from __future__ import annotations

from circlet.backends.cpu.lower.recurrent.lstm import Placed, lower_float, why_no_lstm
from circlet.backends.cpu.lower.recurrent.lstm_hybrid import lower_hybrid
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import DType, Op
from circlet.ops.lstm_bidirectional import KIND, Direction, directions_of, merges
from circlet.ops.lstm_operands import FORGET, outputs
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    for one in directions_of(op):
        if one.aux is not None:
            return "does not take weights of an auxiliary input"
        reason = why_no_lstm(one.op, DType.FLOAT32)
        if reason is not None:
            return reason
    return None


def _placed(op: Op, one: Direction) -> Placed:
    """Against time: from the last step, by strides that are negative."""
    width = op.outputs[0].static_shape[-1] if merges(op) else outputs(one.op)
    first = width - outputs(one.op) if merges(op) and one.is_turned else 0
    return Placed(width, first, one.is_turned)


def _lower(op: Op, context: Context) -> None:
    for one in directions_of(op):
        is_float = operand(one.op, FORGET.weights).dtype is DType.FLOAT32
        lower = lower_float if is_float else lower_hybrid
        lower(one.op, context, _placed(op, one))


LOWERINGS.add(Lowering(KIND, "bidirectional_sequence_lstm", _refuses, _lower))
