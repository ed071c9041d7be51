"""What the 8-bit kernels share: folding of zero points, requantisation records, tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.costs import Costs, costs_of
from circlet.backends.cpu.lowering import ParamValue
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import operand
from circlet.ops.requantize import (
    FLOAT_ACTIVATION_RANGES,
    INT32_MAX,
    activation_of,
    activation_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    quantize_multipliers,
    scalar_quant,
    wrap_int32,
)
from circlet.ops.weighted import largest_factor, output_factors, real_factors
from circlet.target.targets import Target

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

FIXED, GENERAL, DOUBLE = "Q8_FIXED", "Q8_GENERAL", "Q8_DOUBLE"
HYBRID, HYBRID_ROWS = HYBRIDS = "Q8_HYBRID", "Q8_HYBRID_ROWS"
RISING = "Q8_RISING"
GROUP = 4
MAX_LEFT_SHIFT = 30
RECORD = 5
_WIDE_ROW = 6
_MOST_RISING_SHIFT = 22
_MOST_PIXELS = 16


@dataclass(frozen=True)
class Scaling:
    """How accumulators become outputs: a form of `requantize.h` and one record per vector."""

    form: str
    records: Int32


def dot_is_signed(target: Target) -> bool:
    """Whether the target's dot product takes signed activations (CIRCLET_DOT_SIGNED)."""
    return target.arch == "aarch64" and target.has("dotprod")


def has_dot(target: Target) -> bool:
    """Whether the target has a four-way dot product of bytes (CIRCLET_HAS_DOT4)."""
    names = ("avx512vnni",) if target.has("avx512f") else ("avxvnni", "dotprod")
    return any(target.has(name) for name in names)


def activation_offset(data: Tensor, target: Target) -> int:
    """What flipping the top bit adds to stored activations on their way into the dot product."""
    signed = dot_is_signed(target)
    if data.dtype is DType.INT8:
        return 0 if signed else 128
    return -128 if signed else 0


def signed_weights(op: Op) -> Int8:
    """The stored weights as int8."""
    stored = np.asarray(operand(op, 1).data)
    return stored if stored.dtype == np.int8 else (stored ^ 0x80).view(np.int8)


def weights_zero(op: Op) -> int:
    """The zero point of `signed_weights`, for the kernel to take off.

    As in TFLite, int8 convolutions do not read the zero point of their weights.
    """
    weights = operand(op, 1)
    zero = scalar_quant(weights)[1]
    if weights.dtype is DType.INT8:
        return zero if op.kind == "FULLY_CONNECTED" else 0
    return zero - 128


def bias_of(op: Op, channels: int) -> Int64:
    """The bias as int64, zeros where it is omitted."""
    bias = op.input(2)
    if bias is None:
        return np.zeros(channels, np.int64)
    return np.asarray(bias.data).reshape(-1).astype(np.int64)


def float_bias_of(op: Op, channels: int) -> npt.NDArray[np.float32]:
    """The bias of a hybrid op, zeros where it is omitted."""
    bias = op.input(2)
    if bias is None:
        return np.zeros(channels, np.float32)
    return np.asarray(bias.data, np.float32).reshape(-1)


def factors_of(op: Op, channels: int) -> npt.NDArray[np.float64]:
    """Real factors from accumulator to output steps, one per channel."""
    factors = output_factors(operand(op, 0), operand(op, 1), op.outputs[0])
    return np.broadcast_to(factors.reshape(-1), (channels,))


@dataclass(frozen=True)
class Slots:
    """Which channel each lane of the records is for.

    Attributes:
        channels: Channel of each slot; those behind the last channel are not stored.
        count: Slots, a multiple of `lanes`.
        lanes: int32 lanes of a vector.
    """

    channels: npt.NDArray[np.intp]
    count: int
    lanes: int

    def table(self, columns: dict[int, np.ndarray]) -> Int32:
        """Records with per-channel values in the given columns, [vectors, RECORD, lanes]."""
        table = np.zeros((self.count // self.lanes, RECORD, self.lanes), np.int32)
        for column, values in columns.items():
            table[:, column] = self.spread(values).astype(np.int32).reshape(-1, self.lanes)
        return table

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Per-channel values in the order of slots, zeros where there is no channel."""
        out = np.zeros(self.count, values.dtype)
        used = np.flatnonzero(self.channels < values.size)
        out[used] = values[self.channels[used]]
        return out


@lru_cache(maxsize=256)
def woven_order(vectors: int, lanes: int) -> npt.NDArray[np.intp]:
    """The channel of a block that each lane of its vectors holds, as `q8_store_tile` packs them."""
    slots = np.arange(vectors * lanes)
    vector, lane = slots // lanes, slots % lanes
    first = vector // GROUP * GROUP
    together = np.minimum(vectors - first, GROUP)
    group = lane // GROUP * together + vector - first
    return first * lanes + group * GROUP + lane % GROUP


def fixed_scaling(op: Op, bias: Int64, reach: Int64, slots: Slots) -> Scaling:
    """Records of fixed-point multipliers.

    Args:
        bias: The bias with the zero points folded in.
        reach: How far from zero each channel's accumulator can get.
    """
    mantissa, shift = quantize_multipliers(factors_of(op, bias.size))
    zero = stored_zero(op)
    if _keeps_rising(op):
        known, value = known_outputs(op, mantissa, shift, reach)
        rising = np.where(known, 0, mantissa), np.where(known, -1, shift)
        if _fits_rising(rising[1], np.where(known, 0, reach)):
            return Scaling(RISING, _rising_records(bias, rising, zero, value, slots))
    if _fits_fixed(mantissa, shift, reach, zero):
        return Scaling(FIXED, _fixed_records(bias, (mantissa, -shift), zero, slots))
    right = np.maximum(np.where(mantissa == 0, 1, -shift), 0)
    columns = {0: wrap_int32(bias), 1: mantissa, 2: right - 1, 3: np.maximum(shift, 0)}
    return Scaling(GENERAL, slots.table(columns))


def _keeps_rising(op: Op) -> bool:
    """Whether the activation keeps nothing below the zero point."""
    low, _ = activation_range(activation_of(op), op.outputs[0])
    return low >= scalar_quant(op.outputs[0])[1]


def known_outputs(
    op: Op, mantissa: Int64, shift: Int64, reach: Int64
) -> tuple[npt.NDArray[np.bool_], Int64]:
    """Channels with one output for all inputs, as networks with dead filters have; and outputs."""
    bias = bias_of(op, reach.size)
    ends = np.stack([bias - (reach - np.abs(bias)), bias + (reach - np.abs(bias))])
    scaled = multiply_by_quantized_multiplier(ends, mantissa, shift)
    low, high = activation_range(activation_of(op), op.outputs[0])
    outputs = np.clip(scaled + scalar_quant(op.outputs[0])[1], low, high)
    inside = (np.abs(ends) <= INT32_MAX).all(axis=0)
    flip = scalar_quant(op.outputs[0])[1] - stored_zero(op)
    return inside & (outputs[0] == outputs[1]), outputs[0] - flip


def _fits_rising(shift: Int64, reach: Int64) -> bool:
    """Whether accumulators have room for what rounds, and results for the zero point."""
    return bool(((shift <= -1) & (shift >= -_MOST_RISING_SHIFT) & (reach < 1 << 29)).all())


def _rising_records(
    bias: Int64, scale: tuple[Int64, Int64], zero: int, value: Int64, slots: Slots
) -> Int32:
    """Both roundings as (high half of (x + start) * mantissa, plus addend) >> (right - 1).

    The low half of what rounds, 2**30 or 3 * 2**30, is start * mantissa modulo 2**32: the mantissa
    is an odd number times a power of two, and odd numbers are 1 or -1 modulo 4. A mantissa of 0
    makes `value` of everything.
    """
    mantissa, right = scale[0], -scale[1]
    half = (np.int64(1) << (right - 1)) + (zero << right)
    rounding = (half << 31) + (1 << 30)
    power = np.maximum(mantissa & -mantissa, 1)
    odd = mantissa // power * (rounding >> 30)
    sign: Int64 = np.where(odd % 4 == 3, -1, 1)
    start: Int64 = np.where(mantissa == 0, 0, sign * ((1 << 30) // power))
    addend: Int64 = np.where(mantissa == 0, value, (rounding - start * mantissa) >> 32)
    columns = {0: wrap_int32(bias + start), 1: mantissa, 3: addend, 4: right - 1}
    table = slots.table(columns)
    table[:, 2, ::2] = table[:, 1, 1::2]
    return table


def _fits_fixed(mantissa: Int64, shift: Int64, reach: Int64, zero: int) -> bool:
    """Whether nothing leaves 32 bits where the zero point is added before the right shift."""
    right = np.minimum(-shift, 31)
    if (mantissa == 0).any() or (right < 1).any():
        return False
    most = reach + (np.int64(1) << (right - 1)) + (abs(zero) << right) + 1
    return bool((most < 1 << 31).all())


def _fixed_records(bias: Int64, scale: tuple[Int64, Int64], zero: int, slots: Slots) -> Int32:
    mantissa, right = scale
    table = slots.table({0: wrap_int32(bias), 1: wrap_int32(2 * mantissa), 4: right})
    addend = (np.int64(1) << (right - 1)) + (zero << right)
    wide = slots.spread((addend << 32) + (1 << 31))
    pairs = wide.view(np.int32).reshape(len(table), slots.lanes // 2, 2, 2)
    table[:, 2] = pairs[:, :, 0].reshape(-1, slots.lanes)
    table[:, 3] = pairs[:, :, 1].reshape(-1, slots.lanes)
    return table


def double_scaling(op: Op, bias: Int64, slots: Slots) -> Scaling:
    """Records of factors as doubles."""
    table = slots.table({0: wrap_int32(bias)})
    real = real_factors(operand(op, 0), operand(op, 1), op.outputs[0])
    factors = slots.spread(np.broadcast_to(real.reshape(-1), (bias.size,)))
    table[:, 1:3] = factors.view(np.int32).reshape(-1, 2, slots.lanes)
    return Scaling(DOUBLE, table)


def hybrid_scaling(op: Op, sums: Int64, slots: Slots, form: str = HYBRID) -> Scaling:
    """Records of a hybrid op: bias, weight scale, sum of weights."""
    weights = operand(op, 1)
    assert weights.quant is not None
    scales = np.broadcast_to(weights.quant.scale.astype(np.float32), (sums.size,)).copy()
    bias = float_bias_of(op, sums.size)
    columns: dict[int, np.ndarray] = {
        0: bias.view(np.int32),
        1: scales.view(np.int32),
        2: wrap_int32(sums),
    }
    return Scaling(form, slots.table(columns))


def stored_zero(op: Op) -> int:
    """The output's zero point on the int8 side of the top bit's flip."""
    zero = scalar_quant(op.outputs[0])[1]
    return zero - 128 if op.outputs[0].dtype is DType.UINT8 else zero


def output_bounds(op: Op) -> dict[str, ParamValue]:
    """What kernels add to scaled values, and activation bounds less the zero point.

    Outputs are made as int8; the top bit of uint8 ones is flipped at the end.
    """
    low, high = activation_range(activation_of(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    flip = zero - stored_zero(op)
    return {"zero": zero - flip, "low": low - zero, "high": high - zero, "out_flip": flip}


def float_bounds(op: Op) -> dict[str, ParamValue]:
    """Activation bounds of a float output."""
    low, high = FLOAT_ACTIVATION_RANGES[activation_of(op)]
    return {"float_low": low, "float_high": high}


def refuses_weighted(op: Op, target: Target) -> str | None:
    """Why no 8-bit kernel takes an op with weights, or None."""
    data, weights, bias = operand(op, 0), operand(op, 1), op.input(2)
    if (data.dtype, weights.dtype) not in (
        (DType.INT8, DType.INT8),
        (DType.UINT8, DType.UINT8),
        (DType.FLOAT32, DType.INT8),
    ):
        return f"does not take {data.dtype.name} with {weights.dtype.name} weights"
    if data.is_constant or not weights.is_constant or (bias is not None and not bias.is_constant):
        return "the input must be computed, weights and bias constant"
    if weights.sparsity is not None:
        return "the weights are stored sparse"
    if data.dtype is DType.FLOAT32:
        return None
    _, shift = quantize_multiplier(largest_factor(data, weights, op.outputs[0]))
    if shift > MAX_LEFT_SHIFT:
        return "an output step is far finer than an accumulator step"
    return None


class Tile(NamedTuple):
    """A register tile of `pixels` outputs by `vectors` registers of channels."""

    pixels: int
    vectors: int


def half_of(pixels: int) -> int:
    """Pixels of a row at half the size, which precompiled kernels are for."""
    return -(-pixels // 2)


def choose_tile(row_pixels: int, channels: int, target: Target, lanes: int) -> Tile:
    """The tile that covers rows of outputs with the least work and the fewest loads."""
    return tiles_of(row_pixels, -(-channels // lanes), target)[0]


@lru_cache(maxsize=4096)
def tiles_of(row_pixels: int, columns: int, target: Target) -> tuple[Tile, ...]:
    """All tiles for rows of outputs of `columns` vectors, those with the least work first.

    Only short rows get tiles of many vectors: fewer distinct tiles are fewer functions to compile.
    """
    wide = target.has("avx512f") if target.arch == "x86_64" else target.arch == "aarch64"
    registers = 32 if wide else 16
    spare = 3 if has_dot(target) else 7
    widest = 4 if row_pixels >= _WIDE_ROW else 7
    found: list[tuple[float, int, Tile]] = []
    for tile, slots in _tiles_of_registers(registers - spare, widest, target):
        pixels, vectors = tile
        if pixels <= max(row_pixels, 1):  # as `tile_work`, which every new size would call often
            tiles = -(-row_pixels // pixels) * -(-columns // vectors)
            found.append((tiles * slots, len(found), tile))
    found.sort()
    return tuple([tile for _, _, tile in found])


def tile_work(costs: Costs, tile: Tile, row_pixels: int, columns: int) -> float:
    """Slots of a row of outputs that is covered with tiles, per group of four taps."""
    pixels, vectors = tile
    tiles = -(-row_pixels // pixels) * -(-columns // vectors)
    return tiles * costs.dot_tile(pixels, vectors)


@lru_cache(maxsize=64)
def _tiles_of_registers(
    registers: int, widest: int, target: Target
) -> tuple[tuple[Tile, float], ...]:
    """Tiles that keep their sums in registers, the largest first, and their slots."""
    costs, found = costs_of(target), []
    for vectors in range(1, widest + 1):
        most = min((registers + 1 - vectors) // vectors, _MOST_PIXELS)
        found += [Tile(pixels, vectors) for pixels in range(1, most + 1)]
    return tuple([(tile, costs.dot_tile(*tile)) for tile in reversed(found)])
