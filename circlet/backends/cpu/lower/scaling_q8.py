"""How sums of 8-bit convolutions become outputs: the cheapest form that is exact."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.lines_q8 import MAGIC_BITS, MOST_SUM, Curve, Lines, lines_of
from circlet.backends.cpu.lower.q8 import (
    FIXED,
    RISING,
    Int64,
    Scaling,
    Slots,
    activation_name,
    bias_of,
    factors_of,
    fixed_scaling,
    general_records,
    known_outputs,
    stored_zero,
)
from circlet.backends.cpu.targets import Target
from circlet.ir import Op
from circlet.ops.requantize import activation_range, quantize_multipliers, scalar_quant, wrap_int32

_LINE = ("Q8_LINE", "Q8_LINES")
_MIXED = ("Q8_LINE_MIXED", "Q8_LINES_MIXED")
_LINE_COST = (2, 4)
_GENERAL_COST = 20
_COSTS = {RISING: 6, FIXED: 10}


def integer_scaling(op: Op, folded: tuple[Int64, Int64], slots: Slots, target: Target) -> Scaling:
    """Records of the form that takes the fewest instructions.

    Args:
        folded: The bias with zero points folded in, and how far sums can get from zero.
    """
    integer = fixed_scaling(op, *folded, slots)
    lines = _line_scaling(op, folded, slots) if _rounds(target) else None
    if lines is None:
        return integer
    scaling, cost = lines
    return scaling if cost < _COSTS.get(integer.form, _GENERAL_COST) else integer


def _rounds(target: Target) -> bool:
    """Whether a target multiplies and adds, and rounds to nearest, in one instruction each."""
    return target.arch == "aarch64" or (target.arch == "x86_64" and target.has("fma"))


def _line_scaling(op: Op, folded: tuple[Int64, Int64], slots: Slots) -> tuple[Scaling, float]:
    """Records of lines, general ones for vectors where a channel has none; instructions each."""
    bias, reach = folded
    mantissa, shift = quantize_multipliers(factors_of(op, bias.size))
    own = bias_of(op, bias.size)
    most = reach - np.abs(own)
    curve = Curve(mantissa, -shift, own - most, own + most)
    low, high = activation_range(activation_name(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    lines, fits = lines_of(curve, (low - zero, high - zero), stored_zero(op))
    known, value = known_outputs(op, mantissa, shift, reach)
    known &= most < MOST_SUM
    lines, fits = _with_constants(lines, known, -own, value), fits | known
    table = _records(bias, lines, slots)
    used = slots.spread(np.ones(bias.size, bool)).reshape(len(table), -1)
    good = (slots.spread(fits).reshape(len(table), -1) | ~used).all(axis=1)
    table[~good] = general_records(bias, mantissa, shift, slots)[~good]
    sides, share = lines.offsets.shape[1], float(good.mean())
    form = (_LINE if good.all() else _MIXED)[sides - 1]
    cost = share * _LINE_COST[sides - 1] + (1 - share) * _GENERAL_COST
    return Scaling(form, table), cost


def _with_constants(lines: Lines, known: np.ndarray, start: Int64, value: Int64) -> Lines:
    """Lines where some channels have one output, whose sums also have to be floats."""
    slope = np.where(known, np.float32(0), lines.slope)
    offsets = np.where(known[:, None], value[:, None].astype(np.float32), lines.offsets)
    return Lines(np.where(known, start, lines.start), slope, offsets)


def _records(bias: Int64, lines: Lines, slots: Slots) -> np.ndarray:
    start = wrap_int32(lines.start + MAGIC_BITS)
    slope, under, over = (
        np.ascontiguousarray(values, np.float32).view(np.int32)
        for values in (lines.slope, lines.offsets[:, 0], lines.offsets[:, -1])
    )
    table = slots.table({0: wrap_int32(bias + start), 1: slope, 2: under, 3: over, 4: start})
    table[:, 4] = np.maximum(table[:, 4], 1)
    return table
