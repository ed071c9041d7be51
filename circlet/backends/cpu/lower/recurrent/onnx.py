"""ONNX's LSTM, GRU and RNN over constant weights, in float32.

An LSTM over 8-bit weights, DynamicQuantizeLSTM, is one whose weights see bytes.
"""

from __future__ import annotations

from math import inf

import numpy as np

from circlet.backends.cpu.lower.products.matvec import Floats
from circlet.backends.cpu.lower.recurrent.cells import (
    Cells,
    Operands,
    Strides,
    Weights,
    call_cells,
)
from circlet.backends.cpu.lower.recurrent.stored import Stored
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, NoRef, Ref
from circlet.ir import DType, Op, Tensor
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.onnx.recurrent import (
    DYNAMIC_LSTM,
    activation_names,
    directions_of,
    hard_gates,
    layer_kind,
)
from circlet.ops.operands import operand
from circlet.target.targets import Target

_DATA, _WEIGHTS, _STATES, _BIAS, _LENGTHS, _FIRST, _FIRST_CELLS, _PEEPHOLES = range(8)
_SCALES = {_WEIGHTS: (8, 9), _STATES: (10, 11)}
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
_PEEPHOLE_ORDER = (0, 2, 1)
_HARD, _HALF = "hardsigmoid", 0.5
_GATES = frozenset({"sigmoid", _HARD})
_CELL_ACTIVATIONS = {"tanh": "TANH", "relu": "RELU"}


def _in_bytes(op: Op) -> bool:
    return op.label == DYNAMIC_LSTM


def _activation(op: Op) -> str | None:
    """What cells and candidates go through, None where gates or directions have others."""
    rows = activation_names(op)
    gate, name = rows[0][0], rows[0][-1]
    usual = {"RNN": (name,), "GRU": (gate, name), "LSTM": (gate, name, name)}[layer_kind(op)]
    fits = all(row == usual for row in rows) and (len(usual) == 1 or gate in _GATES)
    return _CELL_ACTIVATIONS.get(name) if fits else None


def _hard_gates(op: Op) -> tuple[float, float] | None:
    """Slope and offset of gates that go through HardSigmoid, those of the first direction."""
    is_hard = layer_kind(op) != "RNN" and activation_names(op)[0][0] == _HARD
    return hard_gates(op)[0] if is_hard else None


def _refuses_gates(op: Op) -> str | None:
    """Coupled gates are made of one gate, negated: that is the other where halves are at zero."""
    found = _hard_gates(op)
    if found is None:
        return None
    if len(set(hard_gates(op))) > 1:
        return "gates of both directions differ"
    is_coupled = layer_kind(op) == "LSTM" and attributes(op).get("input_forget", 0)
    return "coupled gates are not at a half for 0" if is_coupled and found[1] != _HALF else None


def _wanted_shapes(op: Op) -> dict[int, tuple[int, ...]]:
    """The shapes of the operands behind the first that fit each other."""
    data, hidden = operand(op, _DATA).static_shape, _hidden(op)
    directions, gates = _directions(op), len(_ORDER[layer_kind(op)])
    batches = data[0] if _batch_first(op) else data[1]
    first = (batches, directions, hidden) if _batch_first(op) else (directions, batches, hidden)
    inputs, outputs = (data[2], hidden), gates * hidden
    by_operand = [(n, outputs) if _in_bytes(op) else (outputs, n) for n in inputs]
    return {
        _WEIGHTS: (directions, *by_operand[0]),
        _STATES: (directions, *by_operand[1]),
        _BIAS: (directions, 2 * gates * hidden),
        _LENGTHS: (batches,),
        _FIRST: first,
        _FIRST_CELLS: first,
        _PEEPHOLES: (directions, 3 * hidden),
    }


def _refuses(op: Op, target: Target) -> str | None:
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    lengths = op.input(_LENGTHS)
    others = [lengths, *_stored(op)]
    if any(t.dtype is not DType.FLOAT32 for t in tensors if t not in others):
        return "not float32"
    if lengths is not None and lengths.dtype is not DType.INT32:
        return "lengths are not int32"
    if operand(op, _DATA).is_constant:
        return "constant input"
    constants = [op.input(index) for index in (_WEIGHTS, _STATES, _BIAS, _PEEPHOLES, *range(8, 12))]
    if any(t is not None and (t.data is None or t.sparsity is not None) for t in constants):
        return "weights, their scales and biases must be constant"
    return _refuses_sizes(op) or _refuses_functions(op)


def _stored(op: Op) -> list[Tensor | None]:
    """The operands of an LSTM over 8-bit weights that are no floats: weights and zero points."""
    places = (_WEIGHTS, _STATES, *(zero for _, zero in _SCALES.values())) if _in_bytes(op) else ()
    return [op.input(index) for index in places]


def _refuses_dynamic(op: Op, target: Target) -> str | None:
    if any(op.input(scale) is None for scale, _ in _SCALES.values()):
        return "a scale is omitted"
    return _refuses(op, target)


def _refuses_sizes(op: Op) -> str | None:
    if any(len(operand(op, index).shape) != 3 for index in (_DATA, _WEIGHTS, _STATES)):
        return "a rank is not 3"
    if any(tensor is not None and tensor.elements == 0 for tensor in (*op.inputs, *op.outputs)):
        return "a size is 0"
    for index, shape in _wanted_shapes(op).items():
        tensor = op.input(index)
        if tensor is not None and tensor.shape != shape:
            return "operands do not fit each other"
    return None


def _refuses_functions(op: Op) -> str | None:
    if not _activation(op):
        return "activation functions other than the usual ones"
    return _refuses_gates(op)


def _hidden(op: Op) -> int:
    return operand(op, _STATES).static_shape[1 if _in_bytes(op) else 2]


def _directions(op: Op) -> int:
    return len(directions_of(attributes(op)))


def _batch_first(op: Op) -> bool:
    return bool(attributes(op).get("layout", 0))


def _strides(op: Op) -> Strides:
    data, directions = operand(op, _DATA).static_shape, _directions(op)
    hidden = _hidden(op)
    wide = directions * hidden
    if _batch_first(op):
        steps = data[1]
        return Strides(steps, 1, steps * wide, wide, hidden, wide, hidden)
    batches = data[1]
    return Strides(1, batches, hidden, wide * batches, batches * hidden, hidden, batches * hidden)


def _ordered(op: Op, values: np.ndarray, order: tuple[int, ...]) -> Floats:
    """[directions, parts * hidden, ...] as [directions, parts, hidden, ...] in an order.

    Where input and forget gate are coupled, forget is 1 - input: the logistic of what the input
    gate sees, negated.
    """
    hidden = _hidden(op)
    parts = np.asarray(values, np.float32).reshape(values.shape[0], -1, hidden, *values.shape[2:])
    made: Floats = parts[:, _gates_of(op, order)]
    if _is_coupled(op):
        made[:, 1] *= -1
    return made


def _is_coupled(op: Op) -> bool:
    return layer_kind(op) == "LSTM" and bool(attributes(op).get("input_forget", 0))


def _gates_of(op: Op, order: tuple[int, ...]) -> tuple[int, ...]:
    """Which gate's constants each gate has."""
    return (0, 0, *order[2:]) if _is_coupled(op) else order


def _stored_weights(op: Op, index: int) -> Stored:
    """Weights of 8 bits, with signs."""
    values = np.asarray(operand(op, index).data)
    scale, zero = (op.input(at) for at in _SCALES[index])
    assert scale is not None and scale.data is not None
    directions, _, outputs = values.shape
    sizes, order, hidden = (directions, outputs), _ORDER["LSTM"], _hidden(op)
    of_values = np.zeros(1, np.int8) if zero is None else np.asarray(zero.data)
    zeros = np.broadcast_to(of_values.reshape(len(of_values), -1).astype(np.int32), sizes)
    if values.dtype == np.uint8:
        values, zeros = (values ^ 0x80).view(np.int8), zeros - 128
    scales = np.broadcast_to(np.asarray(scale.data).reshape(len(scale.data), -1), sizes)
    gates = _gates_of(op, order)
    return Stored(
        values.swapaxes(1, 2).reshape(directions, -1, hidden, values.shape[1])[:, gates],
        zeros.reshape(directions, -1, hidden)[:, gates],
        _ordered(op, scales, order),
    )


def _real(op: Op, index: int) -> Floats:
    """Weights, [directions, gates, hidden, operand]."""
    if _in_bytes(op):
        return _stored_weights(op, index).real
    return _ordered(op, np.asarray(operand(op, index).data), _ORDER[layer_kind(op)])


def _weights(op: Op) -> Weights:
    order, hidden = _ORDER[layer_kind(op)], _hidden(op)
    inputs, states = (_real(op, index) for index in (_WEIGHTS, _STATES))
    bias, peepholes = op.input(_BIAS), op.input(_PEEPHOLES)
    none = np.zeros((len(inputs), 2 * len(order) * hidden), np.float32)
    halves = np.split(none if bias is None else np.asarray(bias.data), 2, axis=1)
    of_input, of_state = (_ordered(op, half, order) for half in halves)
    looks = None
    if peepholes is not None:
        looks = _ordered(op, np.asarray(peepholes.data), _PEEPHOLE_ORDER)
    return Weights(inputs, states, of_input, of_state, looks)


def _cells(op: Op) -> Cells:
    attrs, data = attributes(op), operand(op, _DATA).static_shape
    batches, steps = data[:2] if _batch_first(op) else data[1::-1]
    kind = {"LSTM": "LSTM", "RNN": "PLAIN", "GRU": "GRU"}[layer_kind(op)]
    after = kind == "GRU" and attrs.get("linear_before_reset", 0)
    limit = attrs.get("clip")
    return Cells(
        "GRU_AFTER" if after else kind,
        tuple(directions_of(attributes(op))),
        batches,
        steps,
        _hidden(op),
        _strides(op),
        lambda: _weights(op),
        _activation(op) or "",
        inf if limit is None else float(limit),
        op.input(_PEEPHOLES) is not None,
        (lambda: (_stored_weights(op, _WEIGHTS), _stored_weights(op, _STATES)))
        if _in_bytes(op)
        else None,
        hard_gates=_hard_gates(op),
    )


def _lower(op: Op, context: Context) -> None:
    def ref(index: int) -> Ref:
        tensor = op.input(index)
        return NoRef() if tensor is None else source_ref(context, tensor)

    last = [*op.outputs[1:3], None, None]
    operands = Operands(
        operand(op, _DATA),
        op.outputs[0],
        lengths=ref(_LENGTHS),
        first=(ref(_FIRST), ref(_FIRST_CELLS)),
        last=(last[0], last[1]),
    )
    call_cells(op, context, _cells(op), operands)


LOWERINGS.add(Lowering(DYNAMIC_LSTM, "onnx_dynamic_lstm", _refuses_dynamic, _lower))
for _kind in _ORDER:
    LOWERINGS.add(Lowering(f"CUSTOM:{PREFIX}{_kind}", f"onnx_{_kind.lower()}", _refuses, _lower))
