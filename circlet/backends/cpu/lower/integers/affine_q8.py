"""Requantisation of convolutions: the form of the fewest instructions that is exact.

An affine map in floats takes a multiply-add and a rounding where fixed point takes two products of
64 bits. `affine_search.py` proves for which channels it gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from circlet.backends.cpu.lower.integers.affine_search import (
    BITS,
    Affine,
    FloatSums,
    affine_of,
)
from circlet.backends.cpu.lower.integers.q8 import (
    Int64,
    bias_of,
    stored_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import (
    EVEN_SMALL,
    ChannelOrder,
    Requantisation,
    bounded_form,
    fixed_point,
    known_outputs,
    rounding_of,
    single_precision,
)
from circlet.ir import Op
from circlet.ops.requantization import rounds_to_even
from circlet.ops.requantize import (
    activation_of,
    activation_range,
    scalar_quant,
    wrap_int32,
)
from circlet.target.targets import Target

_AFFINE = ("Q8_AFFINE", "Q8_PIECEWISE")
_FEWEST_PIXELS = 32
_START = 1
_NONE = -1  # no sums are floats
_NONE_ZERO = int(np.float32(1).view(np.int32))  # no zero: above all small numbers


def integer_requantisation(
    op: Op,
    folded: tuple[Int64, Int64],
    order: ChannelOrder,
    target: Target,
    floats: FloatSums = BITS,
) -> Requantisation:
    """Parameters of the form that takes the fewest instructions.

    Args:
        folded: The bias with zero points folded in, and how far sums can get from zero.
        floats: How the kernel makes floats of sums.
    """
    bias, reach = folded
    if rounds_to_even(op):
        found = single_precision(op, bias, reach, order)
        is_candidate = found.form == EVEN_SMALL
    else:
        found, is_candidate = fixed_point(op, bias, reach, order), True
    if is_candidate and _rounds(target):
        found = _affine(op, folded, found, order, floats)
    return replace(found, form=bounded_form(op, found.form))


def _rounds(target: Target) -> bool:
    """Whether a target multiplies and adds, and rounds to nearest, in one instruction each."""
    return target.arch == "aarch64" or (target.arch == "x86_64" and target.has("fma"))


def _affine(
    op: Op,
    folded: tuple[Int64, Int64],
    integer: Requantisation,
    order: ChannelOrder,
    floats: FloatSums,
) -> Requantisation:
    """Parameters of affine maps, but for vectors where a channel has none.

    Channels with scales of their own seldom all have one: one form for all such ops, whatever was
    found, is fewer functions to compile.
    """
    bias, reach = folded
    rounding = rounding_of(op, reach)
    low, high = activation_range(activation_of(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    searched = floats if _pixels(op) >= _FEWEST_PIXELS else floats._replace(most_sum=_NONE)
    maps, fits = affine_of(rounding, (low - zero, high - zero), stored_zero(op), searched)
    known, value = known_outputs(op, rounding)
    known &= rounding.most - rounding.least < 2 * floats.most_sum
    maps, fits = _with_constants(maps, known, -bias_of(op, bias.size), value), fits | known
    table = _parameters(bias, maps, order)
    used = order.arranged(np.ones(bias.size, bool)).reshape(len(table), -1)
    good = (order.arranged(fits).reshape(len(table), -1) | ~used).all(axis=1)
    table[~good] = integer.parameters[~good]
    form = _AFFINE[maps.offsets.shape[1] - 1]
    is_pure = rounding.is_uniform() and good.all()
    return Requantisation(form if is_pure else f"{form}_{integer.form[3:]}", table)


def _pixels(op: Op) -> float:
    """Outputs of a channel; what is searched for each has to pay there."""
    sizes = op.outputs[0].shape[:-1]
    return prod(size or inf for size in sizes)


def _with_constants(maps: Affine, known: np.ndarray, start: Int64, value: Int64) -> Affine:
    """Maps where some channels have one output, whose sums also have to be floats."""
    slope = np.where(known, np.float32(0), maps.slope)
    offsets = np.where(known[:, None], value[:, None].astype(np.float32), maps.offsets)
    return Affine(np.where(known, start, maps.start), slope, offsets, maps.floats)


def _parameters(bias: Int64, maps: Affine, order: ChannelOrder) -> np.ndarray:
    """Where zero is, in the last lanes, tells these from integer ones, with small numbers."""
    floats = maps.floats
    slope, under, over, zero = (
        np.ascontiguousarray(values, np.float32).view(np.int32)
        for values in (
            maps.slope,
            maps.offsets[:, 0],
            maps.offsets[:, -1],
            floats.of(np.where(maps.slope == 0, _START, maps.start)),
        )
    )
    base = 0 if floats.origin == 0 else int(np.float32(floats.origin).view(np.int32))
    start = floats.step * (bias + maps.start) + base
    table = order.table({0: wrap_int32(start), 1: slope, 2: under, 3: over, 4: zero})
    table[:, 4][table[:, 4] == 0] = _NONE_ZERO
    return table
