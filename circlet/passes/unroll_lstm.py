"""An LSTM over time as operators of each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.lstm_operands import (
    CELL_STATE,
    GATES,
    OUTPUT_STATE,
    PROJECTION,
    SequenceLstmAttrs,
)
from circlet.ops.operands import operand
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.passes.contract import BOUND, Contract
from circlet.passes.rewriter import Rewriter

_ACTIVATIONS = ("TANH", "RELU", "RELU6")


@dataclass(frozen=True)
class UnrollLstm:
    """Express UNIDIRECTIONAL_SEQUENCE_LSTM by layers and element-wise operators of each step.

    Before: `UNIDIRECTIONAL_SEQUENCE_LSTM(x[1,2,8])`. After: one FULLY_CONNECTED of all steps for
    what the gates read of x; for each step one for what they read of the state, SPLIT, LOGISTIC,
    TANH, MUL, ADD; and a PACK. For runtimes without the kind. Of plain float LSTMs: four gates,
    constant weights, no peepholes, projection or layer normalisation. Every run starts
    from a state of zeros, where the operator goes on from the run before, so no level has it.

    Attributes:
        most_steps: Longest sequence that is unrolled.
    """

    name = "unroll-lstm"
    needs = frozenset({"UNIDIRECTIONAL_SEQUENCE_LSTM"})
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        grows=dict.fromkeys(BOUND, "each step of the sequence has operators of its own"),
    )
    most_steps: int = 64

    def run(self, graph: Graph) -> bool:
        """Unroll every LSTM that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            steps = self._steps(op) if op.kind in self.needs else 0
            if steps and _is_plain(op) and _is_alone(op, rewriter):
                rewriter.replace([op], *_unrolled(op, steps))
        return rewriter.finish()

    def _steps(self, op: Op) -> int:
        """Length of the sequence; 0 where it is open or too long."""
        data = operand(op, 0)
        sizes = data.shape if data.has_rank and None not in data.shape else (0, 0, 0)
        steps = sizes[_time_axis(op)] or 0
        return steps if steps <= self.most_steps else 0


def _time_axis(op: Op) -> int:
    return 0 if op.attributes(SequenceLstmAttrs).time_major else 1


def _is_plain(op: Op) -> bool:
    if op.attributes(SequenceLstmAttrs).activation not in _ACTIVATIONS:
        return False
    wanted = {place for gate in GATES for place in (gate.weights, gate.recurrent, gate.bias)}
    held = {0, OUTPUT_STATE, CELL_STATE, *wanted}
    if {place for place, tensor in enumerate(op.inputs) if tensor is not None} != held:
        return False
    constants = [operand(op, place) for place in wanted]
    floats = all(t.data is not None and t.dtype is DType.FLOAT32 for t in constants)
    return floats and op.input(PROJECTION) is None


def _is_alone(op: Op, rewriter: Rewriter) -> bool:
    """Whether nothing else uses the state, which starts at zero."""
    states = [operand(op, place) for place in (OUTPUT_STATE, CELL_STATE)]
    fresh = all(state.initial is None or not state.initial.any() for state in states)
    return fresh and all(rewriter.readers(state) == [op] for state in states)


def _unrolled(op: Op, steps: int) -> list[Op]:
    parts, axis = Parts(op), _time_axis(op)
    weights, recurrent, bias = (
        parts.constant(np.concatenate([_constant(op, getattr(g, field)) for g in GATES]))
        for field in ("weights", "recurrent", "bias")
    )
    read = parts.make(
        "FULLY_CONNECTED", [op.inputs[0], weights, bias], FullyConnectedAttrs(keep_num_dims=True)
    )
    rows = parts.make_many("UNPACK", [read], UnpackAttrs(steps, axis), [None] * steps)
    state: tuple[Tensor, Tensor] | None = None
    results = []
    for row in rows:
        if state is not None:
            kept = parts.make("FULLY_CONNECTED", [state[0], recurrent, None])
            row = parts.make("ADD", [row, kept], AddAttrs())
        state = _step(parts, op, row, None if state is None else state[1])
        results.append(state[0])
    parts.make("PACK", results, PackAttrs(steps, axis), op.outputs[0])
    return parts.ops


def _step(parts: Parts, op: Op, row: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output and the cell state after a step."""
    last = parts.constant(np.int32(1))
    gates = parts.make_many("SPLIT", [last, row], SplitAttrs(len(GATES)), [None] * len(GATES))
    activation = op.attributes(SequenceLstmAttrs).activation
    new = parts.make("MUL", [parts.make("LOGISTIC", gates[:1]), parts.make(activation, gates[2:3])])
    if cell is not None:
        kept = parts.make("MUL", [parts.make("LOGISTIC", gates[1:2]), cell])
        new = parts.make("ADD", [kept, new])
    new = _clipped(parts, new, op.attributes(SequenceLstmAttrs).cell_clip)
    shown = parts.make(activation, [new])
    return parts.make("MUL", [parts.make("LOGISTIC", gates[3:]), shown]), new


def _clipped(parts: Parts, cell: Tensor, bound: float) -> Tensor:
    """The cell state within a bound, where there is one."""
    if bound <= 0:
        return cell
    low = parts.make("MAXIMUM", [cell, parts.constant(np.float32(-bound))])
    return parts.make("MINIMUM", [low, parts.constant(np.float32(bound))])


def _constant(op: Op, place: int) -> np.ndarray:
    data = operand(op, place).data
    assert data is not None
    return data
