"""Circle's GRU over constant weights."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.products.matvec import Floats
from circlet.backends.cpu.lower.recurrent.cells import (
    Cells,
    Operands,
    Strides,
    Weights,
    call_cells,
)
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, NoRef
from circlet.ir import Op
from circlet.ops.gru import BIAS, GATES, STATE, STATE_BIAS, STATE_WEIGHTS, WEIGHTS, hidden_of
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    constants = (op.input(index) for index in (WEIGHTS, BIAS, STATE_WEIGHTS, STATE_BIAS))
    if any(t is not None and (t.data is None or t.sparsity is not None) for t in constants):
        return "weights and biases must be constant"
    if operand(op, 0).is_constant:
        return "constant input"
    return "a size is 0" if operand(op, 0).elements == 0 else None


def _weights(op: Op) -> Weights:
    hidden = hidden_of(op)

    def gates(position: int) -> Floats:
        return np.asarray(operand(op, position).data).reshape(1, GATES, hidden, -1)

    def bias(position: int) -> Floats:
        given = op.input(position)
        values = np.zeros(GATES * hidden, np.float32) if given is None else np.asarray(given.data)
        return values.reshape(1, GATES, hidden)

    return Weights(gates(WEIGHTS), gates(STATE_WEIGHTS), bias(BIAS), bias(STATE_BIAS))


def _lower(op: Op, context: Context) -> None:
    steps, batches, _ = operand(op, 0).static_shape
    hidden, result = hidden_of(op), op.outputs[0]
    # Every step writes the result, which is left with the last one's.
    strides = Strides(1, batches, hidden, 0, 0, hidden, 0)
    cells = Cells("GRU_AFTER", (False,), batches, steps, hidden, strides, lambda: _weights(op))
    first = source_ref(context, operand(op, STATE))
    call_cells(op, context, cells, Operands(operand(op, 0), result, first=(first, NoRef())))


LOWERINGS.add(Lowering("GRU", "gru_f32", _refuses, _lower))
