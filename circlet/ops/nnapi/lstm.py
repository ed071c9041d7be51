"""LSTM_SEQUENCE: an LSTM in one direction whose states come in and go out as operands.

Operands: 0 to 23 as those of UNIDIRECTIONAL_SEQUENCE_LSTM; 24 an auxiliary input; 25 to 28 its
weights for the input, forget, cell and output gates. Results: the outputs, the output state and the
cell state behind the last step. An input of two dimensions is one step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlet.ir import DType, Op, Shape
from circlet.ops.lstm_float import Extra, Floats, run_float
from circlet.ops.lstm_operands import (
    CELL_STATE,
    GATES,
    INPUT,
    OUTPUT,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    SequenceLstmAttrs,
    cells,
    gates,
    inputs,
    outputs,
)
from circlet.ops.nnapi.cells import decompose_lstm
from circlet.ops.nnapi.record import attributes, nnapi_kind
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree, when_ranked
from circlet.ops.parts import matmul

AUX, COUNT = 24, 29
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH", "LOGISTIC")


def steps_first(op: Op) -> bool:
    """Whether the input's first dimension is time."""
    return bool(attributes(op).whole("time_major"))


def in_steps(op: Op, array: np.ndarray) -> np.ndarray:
    """[time, batch, width] of an operand, in the order in which steps are run."""
    if array.ndim == 2:
        return array[None]
    steps = array if steps_first(op) else np.swapaxes(array, 0, 1)
    return steps[::-1] if attributes(op).whole("backward") else steps


def in_layout(op: Op, steps: np.ndarray) -> np.ndarray:
    """Results of steps, as the input lies."""
    if len(operand(op, 0).shape) == 2:
        return steps[0]
    ordered = steps[::-1] if attributes(op).whole("backward") else steps
    return np.ascontiguousarray(ordered if steps_first(op) else np.swapaxes(ordered, 0, 1))


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    given, attrs = [*arrays, *[None] * (COUNT - len(arrays))], attributes(op)
    clips = float(attrs.real("cell_clip")), float(attrs.real("proj_clip"))
    plain = SequenceLstmAttrs(attrs.text("activation"), *clips)
    inner = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", op.inputs[:AUX], op.outputs[:1], plain, op.origin)
    steps = in_steps(op, present(given[0]))
    made, state, cell = run_float(inner, given[:AUX], steps, _extra(op, given))
    return [in_layout(op, made), state.astype(np.float32), cell.astype(np.float32)]


def _extra(op: Op, given: Arrays) -> Extra | None:
    """What the auxiliary input adds to gates, step by step."""
    if given[AUX] is None:
        return None
    rows = in_steps(op, present(given[AUX]))

    def added(gate: Gate, step: int) -> Floats:
        weights = present(given[AUX + 1 + GATES.index(gate)])
        product: Floats = matmul(rows[step], weights.T)
        return product

    return added


def _widths(op: Op) -> tuple[int | None, int | None, int | None]:
    """Cells, and lengths of the inputs and outputs."""
    (units, width), made = operand(op, OUTPUT.weights).shape, operand(op, OUTPUT.recurrent).shape[1]
    return units, width, made


def _infer(op: Op) -> list[TensorType]:
    data, (units, _, width) = operand(op, 0).shape, _widths(op)
    batch = data[1] if len(data) == 3 and steps_first(op) else data[0]
    made: tuple[Shape, ...] = ((*data[: len(data) - 1], width), (batch, width), (batch, units))
    return [TensorType(DType.FLOAT32, shape) for shape in made]


def _has(op: Op, *positions: int) -> list[bool]:
    return [op.input(position) is not None for position in positions]


def _whole(op: Op) -> bool:
    """Operands that belong together are all there, or none is."""
    has_gate = set(_has(op, INPUT.weights, INPUT.recurrent, INPUT.bias))
    own = gates(op)
    looks = set(_has(op, *[g.peephole for g in own if g.peephole is not None]))
    norms = set(_has(op, *[gate.norm for gate in own]))
    aux = set(_has(op, AUX, *[AUX + 1 + GATES.index(gate) for gate in own]))
    needed = [position for gate in own for position in (gate.weights, gate.recurrent, gate.bias)]
    projects = _has(op, PROJECTION)[0] or not _has(op, PROJECTION_BIAS)[0]
    groups = (has_gate, looks, norms, aux)
    complete = all(_has(op, *needed, OUTPUT_STATE, CELL_STATE))
    return complete and projects and all(len(group) == 1 for group in groups)


def _wanted(op: Op) -> Iterator[tuple[int, Shape]]:
    """The sizes of operands, None where any are allowed."""
    units, width, made = _widths(op)
    for gate in gates(op):
        yield gate.weights, (units, width)
        yield gate.recurrent, (units, made)
        yield gate.bias, (units,)
        yield gate.norm, (units,)
        yield AUX + 1 + GATES.index(gate), (units, None)
        if gate.peephole is not None:
            yield gate.peephole, (units,)
    yield from ((PROJECTION, (made, units)), (PROJECTION_BIAS, (made,)))
    yield from ((OUTPUT_STATE, (None, made)), (CELL_STATE, (None, units)))


def _sizes_hold(op: Op) -> bool:
    data, weights, recurrent = (operand(op, i).shape for i in (0, OUTPUT.weights, OUTPUT.recurrent))
    if len(data) not in (2, 3) or len(weights) != 2 or len(recurrent) != 2:
        return False
    if not sizes_agree(data[-1:], weights[1:]):
        return False
    if op.input(PROJECTION) is None and not sizes_agree(recurrent[1:], weights[:1]):
        return False
    given = ((op.input(position), sizes) for position, sizes in _wanted(op))
    return all(tensor is None or sizes_agree(tensor.shape, sizes) for tensor, sizes in given)


def _floats(op: Op) -> bool:
    return all(tensor is None or tensor.dtype is DType.FLOAT32 for tensor in op.inputs)


def _cost(op: Op) -> Cost:
    aux = op.input(AUX + 1 + GATES.index(OUTPUT))
    width = inputs(op) + outputs(op) + (aux.static_shape[1] if aux is not None else 0)
    row = width * cells(op) * len(gates(op))
    row += cells(op) * outputs(op) if op.input(PROJECTION) is not None else 0
    return Cost(operand(op, 0).elements // max(inputs(op), 1) * row, moves_bytes(op).bytes)


nnapi_kind(
    "LSTM_SEQUENCE",
    _evaluate,
    _infer,
    _cost,
    inputs=(20, COUNT),
    required=1,
    outputs=3,
    dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32", "FLOAT32 _ FLOAT32 -> FLOAT32"),
    rules=(
        Rule("types", _floats, "all operands must be FLOAT32", sized=False),
        Rule("whole", _whole, "operands that belong together are not all given", sized=False),
        Rule(
            "activation",
            lambda op: attributes(op).text("activation") in ACTIVATIONS,
            f"the activation must be one of {', '.join(ACTIVATIONS)}",
            sized=False,
        ),
        when_ranked("sizes", _sizes_hold, "sizes of weights, biases and states must fit the input"),
    ),
    decompose=lambda op: decompose_lstm(op, AUX),
)
