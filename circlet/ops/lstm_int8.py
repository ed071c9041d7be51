"""Integer semantics of the LSTM kinds: int8 values, int16 gates and cells, fixed point.

Gates are Q3.12 before their activation (or on the scale of their intermediate tensor, where they
are layer-normalised) and Q0.15 after it; the scale of the cell state is a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops import gemmlowp16
from circlet.ops.guard import look
from circlet.ops.lstm_norm import normalise
from circlet.ops.lstm_operands import (
    CELL,
    CELL_STATE,
    FORGET,
    HIDDEN,
    INPUT,
    OUTPUT,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    LstmAttrs,
    gates,
    is_normalised,
    peephole,
)
from circlet.ops.opdef import Arrays
from circlet.ops.operands import operand, scale_of, zero_of
from circlet.ops.requantize import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    wrap_int32,
)

Int64 = npt.NDArray[np.int64]

GATE_SCALE = 2.0**-12
INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1


@dataclass(frozen=True)
class Product:
    """A matrix of int8 weights, what is added to its sums, and the factor behind them."""

    weights: npt.NDArray[np.int8]
    bias: Int64
    multiplier: tuple[int, int]

    def of(self, rows: Int64) -> Int64:
        """The scaled products of stored rows."""
        total = (rows.astype(np.float64) @ self.weights.T.astype(np.float64)).astype(np.int64)
        return scaled(wrap_int32(total + self.bias), self.multiplier)


@dataclass(frozen=True)
class GateParts:
    """What one gate is computed of; `peephole` weighs the cell state, `norm` what is normalised."""

    inputs: Product
    recurrent: Product
    peephole: Int64 | None = None
    peephole_multiplier: tuple[int, int] = (0, 0)
    norm: Int64 | None = None
    norm_bias: Int64 | None = None
    norm_multiplier: tuple[int, int] = (0, 0)
    norm_limit: int = 0


@dataclass(frozen=True)
class Parts:
    """Everything constant about an integer LSTM.

    Attributes:
        gates: Parts by gate.
        cell_bits: Integer bits of the cell state.
        cell_clip, projection_clip: Largest magnitudes, 0 for no limit.
        hidden: Factor from output gate times activated cell to stored hidden values.
        hidden_zero: Zero point of hidden values.
        projection: From hidden values to the output, or None.
        output_zero: Zero point of the output.
    """

    gates: dict[Gate, GateParts]
    cell_bits: int
    cell_clip: int
    projection_clip: int
    hidden: tuple[int, int]
    hidden_zero: int
    projection: Product | None
    output_zero: int


def scaled(values: Int64, multiplier: tuple[int, int]) -> Int64:
    """Values times a fixed-point factor."""
    return multiply_by_quantized_multiplier(values, *multiplier)


def cell_exponent(op: Op) -> float:
    """The power of two that is the cell state's scale; not whole where it is none."""
    return log2(scale_of(operand(op, CELL_STATE)))


def gate_scale(op: Op, gate: Gate) -> float:
    """Scale of a gate before its activation (and before normalisation)."""
    if not is_normalised(op):
        return GATE_SCALE
    return scale_of(op.intermediates[gate.norm - INPUT.norm])


def parts_of(op: Op) -> Parts:
    """The constants of an integer LSTM."""
    attrs, exponent = op.attributes(LstmAttrs), round(cell_exponent(op))
    hidden_scale = scale_of(op.intermediates[HIDDEN])
    state = operand(op, OUTPUT_STATE)
    projection = op.input(PROJECTION)
    return Parts(
        {gate: _gate_parts(op, gate) for gate in gates(op)},
        15 + exponent,
        _clip(attrs.cell_clip, 2.0**exponent, INT16_MAX),
        _clip(attrs.proj_clip, scale_of(state), 127),
        quantize_multiplier(2.0**-30 / hidden_scale),
        hidden_zero(op),
        None if projection is None else _projection(op, hidden_scale),
        zero_of(state),
    )


def hidden_zero(op: Op) -> int:
    """Zero point of hidden values; before a projection LiteRT turns its sign."""
    zero = zero_of(op.intermediates[HIDDEN])
    return zero if op.input(PROJECTION) is None else -zero


def _clip(real: float, scale: float, most: int) -> int:
    limit = float(np.float32(real))
    return int(min(limit / scale, most)) if limit > 0 else 0


def _product(op: Op, position: int, zero: int, factor: float, bias: int | None) -> Product:
    """A product over stored values with a zero point, which is folded into the bias."""
    weights = np.asarray(operand(op, position).data)
    offset = -zero * weights.astype(np.int64).sum(axis=1)
    added = None if bias is None else op.input(bias)
    if added is not None:
        offset = offset + np.asarray(added.data).astype(np.int64)
    multiplier = quantize_multiplier(scale_of(operand(op, position)) * factor)
    return Product(weights, wrap_int32(offset), multiplier)


def _projection(op: Op, hidden_scale: float) -> Product:
    factor = hidden_scale / scale_of(operand(op, OUTPUT_STATE))
    return _product(op, PROJECTION, hidden_zero(op), factor, PROJECTION_BIAS)


def _gate_parts(op: Op, gate: Gate) -> GateParts:
    data, state, scale = operand(op, 0), operand(op, OUTPUT_STATE), gate_scale(op, gate)
    normed = is_normalised(op)
    bias = None if normed else gate.bias
    inputs = _product(op, gate.weights, zero_of(data), scale_of(data) / scale, bias)
    recurrent = _product(op, gate.recurrent, zero_of(state), scale_of(state) / scale, None)
    weights, factor = None, (0, 0)
    position = peephole(op, gate)
    if position is not None:
        weights = np.asarray(operand(op, position).data).astype(np.int64)
        real = 2.0 ** round(cell_exponent(op)) * scale_of(operand(op, position)) / scale
        factor = quantize_multiplier(real)
    if not normed:
        return GateParts(inputs, recurrent, weights, factor)
    norm = operand(op, gate.norm)
    return GateParts(
        inputs,
        recurrent,
        weights,
        factor,
        np.asarray(norm.data).astype(np.int64),
        np.asarray(operand(op, gate.bias).data).astype(np.int64),
        quantize_multiplier(scale_of(norm)),
        max(1, int(10000 * np.float32(scale_of(norm)))),
    )


def run_integer(op: Op, arrays: Arrays, steps: np.ndarray) -> tuple[Int64, Int64, Int64]:
    """Outputs of [time, batch, inputs], and the output and cell states after them."""
    parts = parts_of(op)
    state, cell = (np.asarray(arrays[i], np.int64) for i in (OUTPUT_STATE, CELL_STATE))
    outputs = []
    for step in steps.astype(np.int64):
        look()
        state, cell = _step(parts, step, state, cell)
        outputs.append(state)
    return np.stack(outputs), state, cell


def _step(parts: Parts, x: Int64, state: Int64, cell: Int64) -> tuple[Int64, Int64]:
    forget = _logistic(_gate(parts.gates[FORGET], x, state, cell))
    update = _tanh(_gate(parts.gates[CELL], x, state, cell), 3)
    if INPUT in parts.gates:
        taken = _logistic(_gate(parts.gates[INPUT], x, state, cell))
    else:
        taken = INT16_MAX - forget
    kept = rounding_divide_by_pot(forget * cell, 15)
    added = rounding_divide_by_pot(taken * update, 15 + parts.cell_bits)
    cell = clip16(kept + added)
    if parts.cell_clip:
        cell = np.clip(cell, -parts.cell_clip, parts.cell_clip)
    opened = _logistic(_gate(parts.gates[OUTPUT], x, state, cell))
    return _output(parts, opened * _tanh(cell, parts.cell_bits)), cell


def _output(parts: Parts, hidden: Int64) -> Int64:
    stored = np.clip(scaled(hidden, parts.hidden) + parts.hidden_zero, -128, 127)
    if parts.projection is None:
        return stored
    result = np.clip(parts.projection.of(stored) + parts.output_zero, -128, 127)
    clip = parts.projection_clip
    return np.clip(result, -clip, clip) if clip else result


def _gate(parts: GateParts, x: Int64, state: Int64, cell: Int64) -> Int64:
    total = clip16(parts.recurrent.of(state) + clip16(parts.inputs.of(x)))
    if parts.peephole is not None:
        total = clip16(scaled(parts.peephole * cell, parts.peephole_multiplier) + total)
    if parts.norm is None or parts.norm_bias is None:
        return total
    return normalise(total, parts.norm, parts.norm_bias, parts.norm_multiplier, parts.norm_limit)


def clip16(values: Int64) -> Int64:
    """Values limited to the int16 range."""
    return np.clip(values, INT16_MIN, INT16_MAX)


def _logistic(values: Int64) -> Int64:
    return gemmlowp16.logistic(values.astype(np.int16)).astype(np.int64)


def _tanh(values: Int64, integer_bits: int) -> Int64:
    return gemmlowp16.tanh(values.astype(np.int16), integer_bits).astype(np.int64)
