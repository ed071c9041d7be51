"""BIDIRECTIONAL_SEQUENCE_LSTM: one LSTM over time and one against it, each with its own states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op, Shape
from circlet.ops import checks
from circlet.ops.lstm import ACTIVATIONS
from circlet.ops.lstm_float import Extra, Floats, rows_product, run_float
from circlet.ops.lstm_operands import (
    GATES,
    Gate,
    LstmAttrs,
    SequenceLstmAttrs,
    cells,
    gates,
    inputs,
    outputs,
)
from circlet.ops.lstm_rules import RULES
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import is_affine, moves_bytes, operand, present

KIND = "BIDIRECTIONAL_SEQUENCE_LSTM"
AUX_INPUT = 39
_OPERANDS = 17  # of each direction, between input and states
_STATES = 35
_WEIGHTS = ("FLOAT32", "INT8", "UINT8")


@dataclass(frozen=True)
class BidirectionalLstmAttrs(LstmAttrs):
    """Options of BIDIRECTIONAL_SEQUENCE_LSTM; merged outputs stand side by side in one."""

    merge_outputs: bool = False
    time_major: bool = True


@dataclass(frozen=True)
class Direction:
    """One direction: an op of UNIDIRECTIONAL_SEQUENCE_LSTM over operands of the whole.

    Attributes:
        op: It; its input runs forwards whatever the direction, its output is that of the whole.
        positions: The whole's operand of each of its operands.
        aux: Position of the first weights of the auxiliary input, None where there are none.
        is_turned: Whether it runs backwards.
    """

    op: Op
    positions: tuple[int, ...]
    aux: int | None
    is_turned: bool


def directions_of(op: Op) -> tuple[Direction, Direction]:
    """Both directions, the forward one first.

    An auxiliary input without weights is what the backward direction reads.
    """
    return _direction(op, 0), _direction(op, 1)


def merges(op: Op) -> bool:
    """Whether both directions share one output."""
    return op.attributes(BidirectionalLstmAttrs).merge_outputs


def steps_first(op: Op) -> bool:
    """Whether the input's first dimension is time."""
    return op.attributes(BidirectionalLstmAttrs).time_major


def _direction(op: Op, index: int) -> Direction:
    attrs = op.attributes(BidirectionalLstmAttrs)
    aux = AUX_INPUT + 1 + 4 * index
    has_weights = op.input(AUX_INPUT + 2) is not None
    reads_aux = index == 1 and not has_weights and op.input(AUX_INPUT) is not None
    first, state = 1 + _OPERANDS * index, _STATES + 2 * index
    own = range(first, first + _OPERANDS)
    positions = (AUX_INPUT if reads_aux else 0, *own, state, state + 1)
    one = SequenceLstmAttrs(
        attrs.activation,
        attrs.cell_clip,
        attrs.proj_clip,
        attrs.asymmetric_quantize_inputs,
        attrs.time_major,
    )
    result = op.outputs[0 if attrs.merge_outputs else min(index, len(op.outputs) - 1)]
    given = [op.input(position) for position in positions]
    made = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [result], one, op.origin)
    return Direction(made, positions, aux if has_weights else None, index == 1)


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    widths = [outputs(one.op) for one in directions_of(op)]
    sizes: list[Shape] = [(*data.shape[:-1], width) for width in widths]
    if merges(op):
        sizes = [(*data.shape[:-1], sum(widths))]
    return [TensorType(data.dtype, shape) for shape in sizes]


def _steps(op: Op, array: np.ndarray) -> np.ndarray:
    """[time, batch, width] of an operand, or of a result, in its own order; its own inverse."""
    return array if steps_first(op) else np.swapaxes(array, 0, 1)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    given = [*arrays, *[None] * (48 - len(arrays))]
    rows, states = [], list[Floats]()
    for one in directions_of(op):
        own = [given[position] for position in one.positions]
        turn = slice(None, None, -1 if one.is_turned else 1)
        extra = _extra(op, one, given, turn)
        made, *kept = run_float(one.op, own, _steps(op, present(own[0]))[turn], extra)
        rows.append(_steps(op, made[turn]))
        states += kept
    results = [np.concatenate(rows, axis=-1)] if merges(op) else rows
    return [np.ascontiguousarray(array, np.float32) for array in (*results, *states)]


def _extra(op: Op, one: Direction, given: Arrays, turn: slice) -> Extra | None:
    """What the auxiliary input adds to gates, step by step."""
    if one.aux is None:
        return None
    first, rows = one.aux, _steps(op, present(given[AUX_INPUT]))[turn]
    asymmetric = op.attributes(LstmAttrs).asymmetric_quantize_inputs

    def added(gate: Gate, step: int) -> Floats:
        position = first + GATES.index(gate)
        weights = present(given[position])
        return rows_product(op, position, weights, rows[step], asymmetric=asymmetric)

    return added


def _each(holds: Callable[[Op], bool]) -> Callable[[Op], bool]:
    """What holds of an LSTM, of both directions."""
    return lambda op: all(holds(one.op) for one in directions_of(op))


def _outputs_hold(op: Op) -> bool:
    return len(op.outputs) == (1 if merges(op) else 2)


def _states_apart(op: Op) -> bool:
    states = [op.input(_STATES + index) for index in range(4)]
    return len(set(states)) == 4 and all(op.inputs.count(state) == 1 for state in states)


def _types_agree(op: Op) -> bool:
    first, second = (operand(one.op, GATES[1].weights).dtype for one in directions_of(op))
    return first is second


def _aux_holds(op: Op) -> bool:
    data, aux = operand(op, 0), op.input(AUX_INPUT)
    has_weights = [op.input(AUX_INPUT + 1 + index) is not None for index in range(8)]
    if aux is None:
        return not any(has_weights)
    sizes = zip(aux.shape[:-1], data.shape[:-1], strict=False)
    fits = len(aux.shape) == 3 and all(a == b or None in (a, b) for a, b in sizes)
    if aux.dtype is not DType.FLOAT32 or not fits:
        return False
    return not any(has_weights) or all(_aux_weights_hold(op, one) for one in directions_of(op))


def _aux_weights_hold(op: Op, one: Direction) -> bool:
    width, stored = operand(op, AUX_INPUT).shape[-1], operand(one.op, GATES[1].weights).dtype
    for gate in gates(one.op):
        tensor = op.input((one.aux or 0) + GATES.index(gate))
        if one.aux is None or tensor is None or tensor.dtype is not stored:
            return False
        scaled = stored is DType.FLOAT32 or is_affine(tensor)
        if not (tensor.is_constant and scaled and tensor.shape[:1] == (cells(one.op),)):
            return False
        if len(tensor.shape) != 2 or width not in (None, tensor.shape[1]):
            return False
    return True


def _cost(op: Op) -> Cost:
    vectors = operand(op, 0).elements // max(inputs(directions_of(op)[0].op), 1)
    rows = 0
    for one in directions_of(op):
        width = inputs(one.op) + outputs(one.op)
        if one.aux is not None:
            width += operand(op, AUX_INPUT).static_shape[-1]
        rows += width * cells(one.op) * len(gates(one.op))
    return Cost(vectors * rows, moves_bytes(op).bytes)


register(
    OpDef(
        kind=KIND,
        attrs=BidirectionalLstmAttrs,
        arity=(39, 48),
        required=1,
        outputs=None,
        dtypes=tuple(
            f"FLOAT32 {first} {stored} -> FLOAT32" for stored in _WEIGHTS for first in (stored, "_")
        ),
        infer=_infer,
        rules=(
            Rule("outputs_count", _outputs_hold, "it has another number of outputs"),
            checks.one_of("activation", ACTIVATIONS),
            checks.rank_is(0, 3, "input"),
            *(Rule(rule.name, _each(rule.holds), rule.message) for rule in RULES),
            Rule("states_apart", _states_apart, "the states must be variable tensors of their own"),
            Rule("weights_agree", _types_agree, "both directions must have weights of one type"),
            Rule("aux_fits", _aux_holds, "the auxiliary input and its weights do not fit"),
        ),
        evaluate=_evaluate,
        numerics="tolerance",
        cost=_cost,
        updates=tuple(range(_STATES, _STATES + 4)),
    )
)
