"""What the 8-bit kernels share: folding of zero points, requantisation records, tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lowering import ParamValue
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import operand
from circlet.ops.requantize import (
    FLOAT_ACTIVATION_RANGES,
    activation_range,
    quantize_multipliers,
    scalar_quant,
    wrap_int32,
)
from circlet.ops.weighted import output_factors

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

FIXED, GENERAL, DOUBLE, HYBRID = "Q8_FIXED", "Q8_GENERAL", "Q8_DOUBLE", "Q8_HYBRID"
MAX_LEFT_SHIFT = 30


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


def signed_weights(op: Op) -> tuple[Int8, int]:
    """The stored weights as int8, and the zero point that remains for the kernel to take off."""
    weights = operand(op, 1)
    stored = np.asarray(weights.data)
    if weights.dtype is DType.INT8:
        return stored.astype(np.int8), 0
    shifted = stored.astype(np.int16) - 128
    return shifted.astype(np.int8), scalar_quant(weights)[1] - 128


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


def fixed_scaling(op: Op, bias: Int64, lanes: int, padded: int) -> Scaling:
    """Fixed-point records of `padded` channels."""
    mantissa, shift = quantize_multipliers(factors_of(op, bias.size))
    shift = np.where(mantissa == 0, -1, shift)
    form = FIXED if (shift < 0).all() else GENERAL
    rows = (wrap_int32(bias), mantissa, np.maximum(-shift, 0) - 1, np.maximum(shift, 0))
    return Scaling(form, records(rows, lanes, padded))


def double_scaling(op: Op, bias: Int64, lanes: int, padded: int) -> Scaling:
    """Records of `padded` channels with factors as doubles."""
    factors = np.zeros(padded, np.float64)
    factors[: bias.size] = factors_of(op, bias.size)
    halves = factors.view(np.int32).reshape(-1, 2 * lanes)
    table = np.zeros((padded // lanes, 4 * lanes), np.int32)
    table[:, :lanes] = _padded(wrap_int32(bias), padded).reshape(-1, lanes)
    table[:, lanes : 3 * lanes] = halves
    return Scaling(DOUBLE, table)


def hybrid_scaling(op: Op, sums: Int64, lanes: int, padded: int) -> Scaling:
    """Records of `padded` channels of a hybrid op: bias, weight scale, sum of weights."""
    weights = operand(op, 1)
    assert weights.quant is not None
    scales = np.broadcast_to(weights.quant.scale.astype(np.float32), (sums.size,))
    bias = float_bias_of(op, sums.size)
    rows = (bias.view(np.int32), scales.copy().view(np.int32), sums, np.zeros_like(sums))
    return Scaling(HYBRID, records(rows, lanes, padded))


def records(rows: tuple[np.ndarray, ...], lanes: int, padded: int) -> Int32:
    """Four rows of per-channel values as one record per vector of `lanes` channels."""
    table = np.stack([_padded(row, padded) for row in rows])
    return np.ascontiguousarray(table.reshape(4, -1, lanes).transpose(1, 0, 2), np.int32)


def output_bounds(op: Op) -> dict[str, ParamValue]:
    """Zero point of an integer output and its activation bounds less the zero point."""
    low, high = activation_range(activation_name(op), op.outputs[0])
    zero = scalar_quant(op.outputs[0])[1]
    return {"zero": zero, "low": low - zero, "high": high - zero}


def float_bounds(op: Op) -> dict[str, ParamValue]:
    """Activation bounds of a float output."""
    low, high = FLOAT_ACTIVATION_RANGES[activation_name(op)]
    return {"float_low": low, "float_high": high}


def activation_name(op: Op) -> str:
    """The fused activation of an op with weights."""
    return str(getattr(op.attrs, "fused_activation_function", "NONE"))


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
    _, shift = quantize_multipliers(output_factors(data, weights, op.outputs[0]))
    if shift.max(initial=0) > MAX_LEFT_SHIFT:
        return "an output step is far finer than an accumulator step"
    return None


def _padded(row: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, np.int32)
    out[: row.size] = row
    return out


@dataclass(frozen=True)
class Tile:
    """A register tile of `pixels` outputs by `vectors` registers of channels."""

    pixels: int
    vectors: int


def choose_tile(row_pixels: int, channels: int, target: Target, lanes: int) -> Tile:
    """The tile that covers rows of outputs with the least work and the fewest loads."""
    wide = target.has("avx512f") if target.arch == "x86_64" else target.arch == "aarch64"
    registers = 32 if wide else 16
    spare = 3 if has_dot(target) else 7
    columns = -(-channels // lanes)
    best, least = Tile(1, 1), float("inf")
    for vectors in range(1, 8):
        most = min((registers - spare + 1 - vectors) // vectors, 12)
        for pixels in range(1, min(most, row_pixels) + 1):
            tiles = -(-row_pixels // pixels) * -(-columns // vectors)
            work = tiles * (pixels * vectors + 0.4 * (pixels + vectors))
            if work <= least:
                best, least = Tile(pixels, vectors), work
    return best
