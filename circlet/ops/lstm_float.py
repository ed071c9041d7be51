"""Float semantics of the LSTM kinds; with 8-bit weights each row meets them quantised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops.functions import FUNCTIONS
from circlet.ops.guard import look
from circlet.ops.hybrid import quantise_rows
from circlet.ops.lstm_operands import (
    CELL,
    CELL_STATE,
    FORGET,
    INPUT,
    OUTPUT,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    LstmAttrs,
    gates,
)
from circlet.ops.opdef import Arrays
from circlet.ops.operands import operand, present, scale_of
from circlet.ops.parts import matmul
from circlet.ops.requantize import activate_float, activation_of

Floats = npt.NDArray[np.float32]

NORM_EPSILON = np.float32(1e-8)


def run_float(op: Op, arrays: Arrays, steps: Floats) -> tuple[Floats, Floats, Floats]:
    """Outputs of [time, batch, inputs], and the output and cell states after them."""
    given = [*arrays, *[None] * (24 - len(arrays))]
    state, cell = present(given[OUTPUT_STATE]), present(given[CELL_STATE])
    outputs = []
    for step in steps:
        look()
        state, cell = _step(op, given, step, (state, cell))
        outputs.append(state)
    return np.stack(outputs), state, cell


def _step(op: Op, given: Arrays, x: Floats, before: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    state, cell = before
    activation = activation_of(op)
    forget = _logistic(_gate(op, FORGET, given, x, state, cell))
    update = _activate(_gate(op, CELL, given, x, state, cell), activation)
    has_input = INPUT in gates(op)
    taken = _logistic(_gate(op, INPUT, given, x, state, cell)) if has_input else 1 - forget
    cell = _clipped(forget * cell + taken * update, op.attributes(LstmAttrs).cell_clip)
    opened = _logistic(_gate(op, OUTPUT, given, x, state, cell))
    hidden = opened * _activate(cell, activation)
    if given[PROJECTION] is None:
        return hidden, cell
    bias = given[PROJECTION_BIAS]
    projected = _product(op, PROJECTION, given, hidden)
    projected = projected if bias is None else projected + bias
    return _clipped(projected, op.attributes(LstmAttrs).proj_clip), cell


def _product(op: Op, position: int, given: Arrays, rows: Floats) -> Floats:
    weights = present(given[position])
    if weights.dtype == np.float32:
        return matmul(rows, weights.T)
    asymmetric = op.attributes(LstmAttrs).asymmetric_quantize_inputs
    stored = quantise_rows(rows, asymmetric=asymmetric)
    total = matmul(stored.values, weights.view(np.int8).T.astype(np.float64))
    factor = stored.scales[:, None] * np.float32(scale_of(operand(op, position)))
    return (total.astype(np.float32) * factor).astype(np.float32)


def real_vector(op: Op, position: int, values: np.ndarray) -> Floats:
    """Coefficients as real numbers, whatever they are stored as."""
    if values.dtype == np.float32:
        return values
    scale = np.float32(scale_of(operand(op, position)))
    return (values.view(np.int8) * scale).astype(np.float32)


def _gate(op: Op, gate: Gate, given: Arrays, x: Floats, state: Floats, cell: Floats) -> Floats:
    """What a gate sees, before its activation."""
    total = _product(op, gate.weights, given, x) + _product(op, gate.recurrent, given, state)
    look = None if gate.peephole is None else given[gate.peephole]
    if look is not None and gate.peephole is not None:
        total = total + cell * real_vector(op, gate.peephole, look)
    norm = given[gate.norm]
    if norm is not None:
        total = _normalised(total) * norm
    result: Floats = (total + present(given[gate.bias])).astype(np.float32)
    return result


def _normalised(rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=-1, keepdims=True, dtype=np.float32)
    variance = (centred * centred).mean(axis=-1, keepdims=True, dtype=np.float32)
    result: Floats = centred / np.sqrt(variance + NORM_EPSILON)
    return result


def _logistic(x: Floats) -> Floats:
    return np.asarray(FUNCTIONS["logistic"].numpy(x), np.float32)


def _activate(x: Floats, activation: str) -> Floats:
    return np.tanh(x) if activation == "TANH" else activate_float(x, activation)


def _clipped(x: Floats, most: float) -> Floats:
    limit = np.float32(most)
    return np.clip(x, -limit, limit) if limit > 0 else x
