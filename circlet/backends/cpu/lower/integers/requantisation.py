"""Requantisation in fixed point and in doubles: forms of `requantize.h` and their parameters.

TFLite's reference multiplies a sum by a 31-bit mantissa, rounds the high half, shifts right and
rounds again (gemmlowp's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT). Every form
gives these bits; what tells them apart is for which sums they do, and with how many instructions.
`affine_q8.py` has forms in single precision, for channels for which that is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.q8 import (
    Int32,
    Int64,
    bias_of,
    factors_of,
    float_bias_of,
    stored_zero,
)
from circlet.backends.cpu.lower.integers.roundings import FixedPoint, Rounding, SingleFactor
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.requantization import rounds_to_even
from circlet.ops.requantize import (
    INT32_MAX,
    activation_of,
    activation_range,
    quantize_multipliers,
    scalar_quant,
    wrap_int32,
)
from circlet.ops.weighted import real_factors, single_factors
from circlet.target.targets import Target

FIXED, GENERAL = "Q8_FIXED", "Q8_GENERAL"
DOUBLE, DOUBLE_NEAREST = "Q8_DOUBLE", "Q8_DOUBLE_NEAREST"
EVEN, EVEN_SMALL = "Q8_EVEN", "Q8_EVEN_SMALL"
HYBRID, HYBRID_ROWS, SUMS = HYBRIDS = "Q8_HYBRID", "Q8_HYBRID_ROWS", "Q8_SUMS"
CROSS_SUMS = "Q8_CROSS_SUMS"
FIXED_RELU = "Q8_FIXED_RELU"
_GROUP = 4
_PARAMETERS = 5
_MOST_RELU_SHIFT = 22
_SMALL = 1 << 30


@dataclass(frozen=True)
class Requantisation:
    """How sums become outputs.

    Attributes:
        form: The form of `requantize.h`.
        parameters: For each vector of channels five rows of lanes, the first of them the bias.
    """

    form: str
    parameters: Int32


@dataclass(frozen=True)
class ChannelOrder:
    """Which channel each lane of a block's vectors is for.

    Attributes:
        channels: Channel of each lane; those behind the last channel are not stored.
        count: Lanes of all vectors, a multiple of `lanes`.
        lanes: int32 lanes of a vector.
    """

    channels: npt.NDArray[np.intp]
    count: int
    lanes: int

    def table(self, rows: dict[int, np.ndarray]) -> Int32:
        """Parameters with per-channel values in the given rows, [vectors, rows, lanes]."""
        table = np.zeros((self.count // self.lanes, _PARAMETERS, self.lanes), np.int32)
        for row, values in rows.items():
            table[:, row] = self.arranged(values).astype(np.int32).reshape(-1, self.lanes)
        return table

    def arranged(self, values: np.ndarray) -> np.ndarray:
        """Per-channel values in the order of lanes, zeros where there is no channel."""
        out = np.zeros(self.count, values.dtype)
        used = np.flatnonzero(self.channels < values.size)
        out[used] = values[self.channels[used]]
        return out


def in_order(channels: int, width: int, lanes: int, groups: int = 1) -> ChannelOrder:
    """Channels in order, those of each group rounded up to whole blocks of `width`."""
    return _by_groups(channels, groups, width, np.arange(width), lanes)


def interleaved(channels: int, width: int, lanes: int, groups: int = 1) -> ChannelOrder:
    """Channels as the blocks of `q8_store_tile` hold them, each of them of one group."""
    return _by_groups(channels, groups, width, interleaved_lanes(width // lanes, lanes), lanes)


def _by_groups(
    channels: int, groups: int, width: int, order: npt.NDArray[np.intp], lanes: int
) -> ChannelOrder:
    own = channels // groups
    places = (np.arange(0, own, width)[:, None] + order).reshape(-1)
    firsts = np.arange(groups)[:, None] * own
    found = np.where(places < own, firsts + places, channels).reshape(-1)
    return ChannelOrder(found, found.size, lanes)


@lru_cache(maxsize=256)
def interleaved_lanes(vectors: int, lanes: int) -> npt.NDArray[np.intp]:
    """The channel of a block that each lane of its vectors holds, as `q8_store_tile` packs them.

    Narrowing up to four registers of int32 to one of int8 (vpackssdw, vpacksswb) interleaves them
    in groups of four lanes within 128 bits. Weights are packed so that this brings channels in
    order, and no shuffle is needed behind it. Four vectors of 16 lanes:

        register 0:  0  1  2  3 | 16 17 18 19 | 32 33 34 35 | 48 49 50 51
        register 1:  4  5  6  7 | 20 21 22 23 | 36 37 38 39 | 52 53 54 55   ...
    """
    places = np.arange(vectors * lanes)
    vector, lane = places // lanes, places % lanes
    first = vector // _GROUP * _GROUP
    together = np.minimum(vectors - first, _GROUP)
    group = lane // _GROUP * together + vector - first
    return first * lanes + group * _GROUP + lane % _GROUP


def fixed_point(op: Op, bias: Int64, reach: Int64, order: ChannelOrder) -> Requantisation:
    """Fixed-point multipliers, in the cheapest form that holds all sums.

    Args:
        bias: The bias with the zero points folded in.
        reach: How far from zero each channel's sums can get.
    """
    rounding = rounding_of(op, reach)
    assert isinstance(rounding, FixedPoint)
    mantissa, shift = rounding.mantissa, -rounding.right
    zero = stored_zero(op)
    if _is_relu(op):
        known, value = known_outputs(op, rounding)
        scale = np.where(known, 0, mantissa), np.where(known, -1, shift)
        if _fits_relu(scale[1], np.where(known, 0, reach)):
            return Requantisation(FIXED_RELU, _relu_parameters(bias, scale, zero, value, order))
    elif fits_fixed(mantissa, shift, reach, zero):
        return Requantisation(FIXED, fixed_parameters(bias, (mantissa, -shift), zero, order))
    right = np.maximum(np.where(mantissa == 0, 1, -shift), 0)
    rows = {0: wrap_int32(bias), 1: mantissa, 2: np.maximum(shift, 0), 3: right}
    return Requantisation(GENERAL, order.table(rows))


def bounded_form(op: Op, form: str) -> str:
    """A form with what saturation makes of bounds: most activations have those of their type."""
    result = op.outputs[0]
    if activation_range(activation_of(op), result) != limits(result.dtype):
        return form
    is_unsigned = result.dtype is DType.UINT8
    return f"{form} | Q8_SATURATED{' | Q8_UNSIGNED' if is_unsigned else ''}"


def _is_relu(op: Op) -> bool:
    """Whether the activation keeps nothing below the zero point."""
    low, _ = activation_range(activation_of(op), op.outputs[0])
    return low >= scalar_quant(op.outputs[0])[1]


def rounding_of(op: Op, reach: Int64) -> Rounding:
    """How an op's sums become outputs.

    Args:
        reach: How far from zero each channel's sums can get.
    """
    own = bias_of(op, reach.size)
    most = reach - np.abs(own)
    if rounds_to_even(op):
        return SingleFactor(channel_factors(op, reach.size), own - most, own + most)
    mantissa, shift = quantize_multipliers(factors_of(op, reach.size))
    return FixedPoint(mantissa, -shift, own - most, own + most)


def known_outputs(op: Op, rounding: Rounding) -> tuple[npt.NDArray[np.bool_], Int64]:
    """Channels with one output for all inputs, as networks with dead filters have; and outputs."""
    ends = np.stack([rounding.least, rounding.most])
    low, high = activation_range(activation_of(op), op.outputs[0])
    outputs = np.clip(rounding.outputs(ends) + scalar_quant(op.outputs[0])[1], low, high)
    inside = (np.abs(ends) <= INT32_MAX).all(axis=0)
    flip = scalar_quant(op.outputs[0])[1] - stored_zero(op)
    return inside & (outputs[0] == outputs[1]), outputs[0] - flip


def _fits_relu(shift: Int64, reach: Int64) -> bool:
    """Whether sums have room for what rounds, and results for the zero point."""
    return bool(((shift <= -1) & (shift >= -_MOST_RELU_SHIFT) & (reach < 1 << 29)).all())


def _relu_parameters(
    bias: Int64, scale: tuple[Int64, Int64], zero: int, value: Int64, order: ChannelOrder
) -> Int32:
    """Both roundings as (high half of (x + start) * mantissa, plus addend) >> (right - 1).

    For x >= 0 both roundings add a half and floor, and flooring twice is flooring once: the result
    is (x * mantissa + rounding) >> (31 + right). The low half of what rounds, 2**30 or 3 * 2**30,
    is start * mantissa modulo 2**32: the mantissa is an odd number times a power of two, and odd
    numbers are 1 or -1 modulo 4. A mantissa of 0 makes `value` of everything.
    """
    mantissa, right = scale[0], -scale[1]
    half = (np.int64(1) << (right - 1)) + (zero << right)
    rounding = (half << 31) + (1 << 30)
    power = np.maximum(mantissa & -mantissa, 1)
    odd = mantissa // power * (rounding >> 30)
    sign: Int64 = np.where(odd % 4 == 3, -1, 1)
    start: Int64 = np.where(mantissa == 0, 0, sign * ((1 << 30) // power))
    addend: Int64 = np.where(mantissa == 0, value, (rounding - start * mantissa) >> 32)
    table = order.table({0: wrap_int32(bias + start), 1: mantissa, 3: addend, 4: right - 1})
    table[:, 2, ::2] = table[:, 1, 1::2]
    return table


def fits_fixed(mantissa: Int64, shift: Int64, reach: Int64, zero: int) -> bool:
    """Whether nothing leaves 32 bits where the zero point is added before the right shift."""
    right = np.minimum(-shift, 31)
    if (mantissa == 0).any() or (right < 1).any():
        return False
    most = reach + (np.int64(1) << (right - 1)) + (abs(zero) << right) + 1
    return bool((most < 1 << 31).all())


def fixed_parameters(
    bias: Int64, scale: tuple[Int64, Int64], zero: int, order: ChannelOrder
) -> Int32:
    """Both roundings and the zero point as one addend of 64 bits, for even and for odd lanes."""
    mantissa, right = scale
    table = order.table({0: wrap_int32(bias), 1: wrap_int32(2 * mantissa), 4: right})
    addend = (np.int64(1) << (right - 1)) + (zero << right)
    wide = order.arranged((addend << 32) + (1 << 31))
    pairs = wide.view(np.int32).reshape(len(table), order.lanes // 2, 2, 2)
    table[:, 2] = pairs[:, :, 0].reshape(-1, order.lanes)
    table[:, 3] = pairs[:, :, 1].reshape(-1, order.lanes)
    return table


def double_precision(op: Op, bias: Int64, order: ChannelOrder, target: Target) -> Requantisation:
    """Factors as doubles, for FULLY_CONNECTED, whose reference multiplies reals and rounds once."""
    table = order.table({0: wrap_int32(bias)})
    real = real_factors(operand(op, 0), operand(op, 1), op.outputs[0])
    factors = order.arranged(np.broadcast_to(real.reshape(-1), (bias.size,)))
    table[:, 1:3] = factors.view(np.int32).reshape(-1, 2, order.lanes)
    form = DOUBLE_NEAREST if target.arch == "aarch64" and _misses_half(real) else DOUBLE
    return Requantisation(bounded_form(op, form), table)


def _misses_half(factors: npt.NDArray[np.float64]) -> bool:
    """Whether no sum times its factor is the largest double below a half: added to a half it is 1.

    A product is that double for no integer but the one nearest to a half over the factor.
    """
    nearest = np.rint(0.5 / factors)
    return not (nearest * factors == np.nextafter(0.5, 0.0)).any()


def single_precision(op: Op, bias: Int64, reach: Int64, order: ChannelOrder) -> Requantisation:
    """Factors as floats, for ops that round as ONNX Runtime does.

    Args:
        bias: The bias with the zero points folded in.
        reach: How far from zero each channel's sums can get.
    """
    factors = channel_factors(op, bias.size)
    form = EVEN_SMALL if (np.abs(factors) * reach < _SMALL).all() else EVEN
    return Requantisation(form, order.table({0: wrap_int32(bias), 1: factors.view(np.int32)}))


def channel_factors(op: Op, channels: int) -> npt.NDArray[np.float32]:
    """`single_factors`, one for each channel."""
    factors = single_factors(operand(op, 0), operand(op, 1), op.outputs[0]).reshape(-1)
    return np.ascontiguousarray(np.broadcast_to(factors, (channels,)))


def dequantisation(op: Op, sums: Int64, order: ChannelOrder, form: str = HYBRID) -> Requantisation:
    """For results of a hybrid op, which are floats: bias, weight scale, sum of weights."""
    weights = operand(op, 1)
    assert weights.quant is not None
    scales = np.broadcast_to(weights.quant.scale.astype(np.float32), (sums.size,)).copy()
    bias = float_bias_of(op, sums.size)
    rows: dict[int, np.ndarray] = {
        0: bias.view(np.int32),
        1: scales.view(np.int32),
        2: wrap_int32(sums),
    }
    return Requantisation(form, order.table(rows))
