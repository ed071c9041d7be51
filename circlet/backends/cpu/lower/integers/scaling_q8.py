"""How sums of 8-bit convolutions become outputs: the cheapest form that is exact."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from circlet.backends.cpu.lower.integers.lines_q8 import BITS, Curve, Floats, Lines, lines_of
from circlet.backends.cpu.lower.integers.q8 import (
    Int64,
    Scaling,
    Slots,
    bias_of,
    factors_of,
    fixed_scaling,
    known_outputs,
    stored_zero,
)
from circlet.ir import Op
from circlet.ops.requantize import (
    activation_of,
    activation_range,
    quantize_multipliers,
    scalar_quant,
    wrap_int32,
)
from circlet.target.targets import Target

_LINES = ("Q8_LINE", "Q8_LINES")
_FEWEST_PIXELS = 64
_START = 1
_LINE = int(np.float32(1).view(np.int32))


def integer_scaling(
    op: Op, folded: tuple[Int64, Int64], slots: Slots, target: Target, floats: Floats = BITS
) -> Scaling:
    """Records of the form that takes the fewest instructions.

    Args:
        folded: The bias with zero points folded in, and how far sums can get from zero.
        floats: How the kernel makes floats of sums.
    """
    integer = fixed_scaling(op, *folded, slots)
    return _line_scaling(op, folded, integer, slots, floats) if _rounds(target) else integer


def _rounds(target: Target) -> bool:
    """Whether a target multiplies and adds, and rounds to nearest, in one instruction each."""
    return target.arch == "aarch64" or (target.arch == "x86_64" and target.has("fma"))


def _line_scaling(
    op: Op, folded: tuple[Int64, Int64], integer: Scaling, slots: Slots, floats: Floats
) -> Scaling:
    """Records of lines, but for vectors where a channel has none.

    Channels with scales of their own seldom all have lines: one form for all such ops, whatever
    was found, is fewer functions to compile.
    """
    bias, reach = folded
    mantissa, shift = quantize_multipliers(factors_of(op, bias.size))
    own = bias_of(op, bias.size)
    most = reach - np.abs(own)
    curve = Curve(mantissa, -shift, own - most, own + most)
    low, high = activation_range(activation_of(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    search = curve if _pixels(op) >= _FEWEST_PIXELS else curve._replace(mantissa=mantissa * 0)
    lines, fits = lines_of(search, (low - zero, high - zero), stored_zero(op), floats)
    known, value = known_outputs(op, mantissa, shift, reach)
    known &= most < floats.most_sum
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
    return Lines(np.where(known, start, lines.start), slope, offsets, lines.floats)


def _records(bias: Int64, lines: Lines, slots: Slots) -> np.ndarray:
    """Where zero is, in the last lanes, tells these from integer records, with small numbers."""
    floats = lines.floats
    slope, under, over, zero = (
        np.ascontiguousarray(values, np.float32).view(np.int32)
        for values in (
            lines.slope,
            lines.offsets[:, 0],
            lines.offsets[:, -1],
            floats.of(np.where(lines.slope == 0, _START, lines.start)),
        )
    )
    base = 0 if floats.origin == 0 else int(np.float32(floats.origin).view(np.int32))
    start = floats.step * (bias + lines.start) + base
    table = slots.table({0: wrap_int32(start), 1: slope, 2: under, 3: over, 4: zero})
    table[:, 4][table[:, 4] == 0] = _LINE
    return table
