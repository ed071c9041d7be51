"""Float semantics of the LSTM kinds; with 8-bit weights each row meets them quantised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

Extra = Callable[[Gate, int], Floats]

NORM_EPSILON = np.float32(1e-8)


def run_float(
    op: Op, arrays: Arrays, steps: Floats, extra: Extra | None = None
) -> tuple[Floats, Floats, Floats]:
    """Outputs of [time, batch, inputs], and the output and cell states after them.

    `extra` gives what is added to the products of a gate at a step.
    """
    given = [*arrays, *[None] * (24 - len(arrays))]
    state, cell = present(given[OUTPUT_STATE]), present(given[CELL_STATE])
    outputs = []
    for time, step in enumerate(steps):
        look()
        state, cell = _step(op, given, step, (state, cell), _Added(extra, time))
        outputs.append(state)
    return np.stack(outputs), state, cell


@dataclass(frozen=True)
class _Added:
    """What is added to the gates of one step."""

    extra: Extra | None
    time: int

    def to(self, gate: Gate, products: Floats) -> Floats:
        return products if self.extra is None else products + self.extra(gate, self.time)


def _step(
    op: Op, given: Arrays, x: Floats, before: tuple[Floats, Floats], added: _Added
) -> tuple[Floats, Floats]:
    state, cell = before
    activation = activation_of(op)

    def seen(gate: Gate) -> Floats:
        products = _product(op, gate.weights, given, x) + _product(op, gate.recurrent, given, state)
        return _gate(op, gate, given, added.to(gate, products), cell)

    forget = _logistic(seen(FORGET))
    update = activated(seen(CELL), activation)
    taken = _logistic(seen(INPUT)) if INPUT in gates(op) else 1 - forget
    cell = _clipped(forget * cell + taken * update, op.attributes(LstmAttrs).cell_clip)
    hidden = _logistic(seen(OUTPUT)) * activated(cell, activation)
    if given[PROJECTION] is None:
        return hidden, cell
    bias = given[PROJECTION_BIAS]
    projected = _product(op, PROJECTION, given, hidden)
    projected = projected if bias is None else projected + bias
    return _clipped(projected, op.attributes(LstmAttrs).proj_clip), cell


def _product(op: Op, position: int, given: Arrays, rows: Floats) -> Floats:
    asymmetric = op.attributes(LstmAttrs).asymmetric_quantize_inputs
    return rows_product(op, position, present(given[position]), rows, asymmetric=asymmetric)


def rows_product(
    op: Op, position: int, weights: np.ndarray, rows: Floats, *, asymmetric: bool
) -> Floats:
    """Rows times the transposed weights at a position; quantised first where these have 8 bits."""
    if weights.dtype == np.float32:
        return matmul(rows, weights.T)
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


def _gate(op: Op, gate: Gate, given: Arrays, products: Floats, cell: Floats) -> Floats:
    """What a gate sees, before its activation."""
    total = products
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


def activated(x: Floats, activation: str) -> Floats:
    """What cells make of values: a fused activation, TANH or LOGISTIC."""
    if activation == "LOGISTIC":
        return _logistic(x)
    return np.tanh(x) if activation == "TANH" else activate_float(x, activation)


def _clipped(x: Floats, most: float) -> Floats:
    limit = np.float32(most)
    return np.clip(x, -limit, limit) if limit > 0 else x
