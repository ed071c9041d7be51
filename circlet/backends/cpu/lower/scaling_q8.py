"""How sums of 8-bit convolutions become outputs: the cheapest form that is exact."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from circlet.backends.cpu.lower.lines_q8 import MAGIC_BITS, MOST_SUM, Curve, Lines, lines_of
from circlet.backends.cpu.lower.q8 import (
    Int64,
    Scaling,
    Slots,
    activation_name,
    bias_of,
    factors_of,
    fixed_scaling,
    known_outputs,
    stored_zero,
)
from circlet.backends.cpu.targets import Target
from circlet.ir import Op
from circlet.ops.requantize import activation_range, quantize_multipliers, scalar_quant, wrap_int32

_LINES = ("Q8_LINE", "Q8_LINES")
_FEWEST_PIXELS = 64


def integer_scaling(op: Op, folded: tuple[Int64, Int64], slots: Slots, target: Target) -> Scaling:
    """Records of the form that takes the fewest instructions.

    Args:
        folded: The bias with zero points folded in, and how far sums can get from zero.
    """
    integer = fixed_scaling(op, *folded, slots)
    return _line_scaling(op, folded, slots, integer) if _rounds(target) else integer


def _rounds(target: Target) -> bool:
    """Whether a target multiplies and adds, and rounds to nearest, in one instruction each."""
    return target.arch == "aarch64" or (target.arch == "x86_64" and target.has("fma"))


def _line_scaling(op: Op, folded: tuple[Int64, Int64], slots: Slots, integer: Scaling) -> Scaling:
    """Records of lines, but for vectors where a channel has none.

    Channels with scales of their own seldom all have lines: one form for all such ops, whatever
    was found, is fewer functions to compile.
    """
    bias, reach = folded
    mantissa, shift = quantize_multipliers(factors_of(op, bias.size))
    own = bias_of(op, bias.size)
    most = reach - np.abs(own)
    curve = Curve(mantissa, -shift, own - most, own + most)
    low, high = activation_range(activation_name(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    search = curve if _pixels(op) >= _FEWEST_PIXELS else curve._replace(mantissa=mantissa * 0)
    lines, fits = lines_of(search, (low - zero, high - zero), stored_zero(op))
    known, value = known_outputs(op, mantissa, shift, reach)
    known &= most < MOST_SUM
    lines, fits = _with_constants(lines, known, -own, value), fits | known
    table = _records(bias, lines, slots)
    used = slots.spread(np.ones(bias.size, bool)).reshape(len(table), -1)
    good = (slots.spread(fits).reshape(len(table), -1) | ~used).all(axis=1)
    table[~good] = integer.records[~good]
    form = _LINES[lines.offsets.shape[1] - 1]
    has_one_scale = (mantissa == mantissa[0]).all() and (shift == shift[0]).all()
    is_pure = has_one_scale and good.all()
    return Scaling(form if is_pure else f"{form}_{integer.form[3:]}", table)


def _pixels(op: Op) -> float:
    """Outputs of a channel; what is searched for each has to pay there."""
    sizes = op.outputs[0].shape[:-1]
    return prod(size or inf for size in sizes)


def _with_constants(lines: Lines, known: np.ndarray, start: Int64, value: Int64) -> Lines:
    """Lines where some channels have one output, whose sums also have to be floats."""
    slope = np.where(known, np.float32(0), lines.slope)
    offsets = np.where(known[:, None], value[:, None].astype(np.float32), lines.offsets)
    return Lines(np.where(known, start, lines.start), slope, offsets)


def _records(bias: Int64, lines: Lines, slots: Slots) -> np.ndarray:
    """Where zero is, in the last lanes, tells these from integer records, with small numbers."""
    start = wrap_int32(lines.start + MAGIC_BITS)
    slope, under, over = (
        np.ascontiguousarray(values, np.float32).view(np.int32)
        for values in (lines.slope, lines.offsets[:, 0], lines.offsets[:, -1])
    )
    zero = np.where(lines.slope == 0, MAGIC_BITS, start)
    table = slots.table({0: wrap_int32(bias + start), 1: slope, 2: under, 3: over, 4: zero})
    table[:, 4][table[:, 4] == 0] = MAGIC_BITS
    return table
