"""What the 8-bit lowerings ask of operators and of targets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lowering import ParamValue
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import limits, operand
from circlet.ops.requantize import (
    FLOAT_ACTIVATION_RANGES,
    activation_of,
    activation_range,
    quantize_multiplier,
    scalar_quant,
)
from circlet.ops.weighted import largest_factor, output_factors
from circlet.target.targets import Target

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

MAX_LEFT_SHIFT = 30
_MATRIX_KINDS = ("FULLY_CONNECTED", "BATCH_MATMUL")


def dot_is_signed(target: Target) -> bool:
    """Whether the target's dot product takes signed activations (CIRCLET_DOT_SIGNED)."""
    return target.arch == "aarch64"


def has_dot(target: Target) -> bool:
    """Whether the target has a four-way dot product of bytes (CIRCLET_HAS_DOT4)."""
    names = ("avx512vnni",) if target.has("avx512f") else ("avxvnni", "dotprod")
    return any(target.has(name) for name in names)


def has_pairs(target: Target) -> bool:
    """Whether kernels add products of bytes in 16 bits (CIRCLET_HAS_PAIRS)."""
    if target.arch != "x86_64" or has_dot(target):
        return False
    needed = "avx512bw" if target.has("avx512f") else "avx2" if target.has("avx2") else "v2"
    return target.has(needed)


def multiplies_by_taps(target: Target) -> bool:
    """Whether depthwise kernels take one tap after the other (DEPTHWISE_Q8_BY_TAPS)."""
    return target.arch != "x86_64" and not has_dot(target)


def activation_offset(data: Tensor, target: Target) -> int:
    """What flipping the top bit adds to stored activations on their way into the dot product."""
    signed = dot_is_signed(target)
    if data.dtype is DType.INT8:
        return 0 if signed else 128
    return -128 if signed else 0


def signed_weights(op: Op) -> Int8:
    """The stored weights as int8; beside float activations the bytes of uint8 ones are that."""
    stored = np.asarray(operand(op, 1).data)
    flips = stored.dtype == np.uint8 and operand(op, 0).dtype is not DType.FLOAT32
    return (stored ^ 0x80 if flips else stored).view(np.int8)


def weights_zero(op: Op) -> int:
    """The zero point of `signed_weights`, for the kernel to take off.

    As in TFLite, int8 convolutions do not read the zero point of their weights.
    """
    weights = operand(op, 1)
    zero = scalar_quant(weights)[1]
    if weights.dtype is DType.INT8:
        return zero if op.kind in _MATRIX_KINDS else 0
    return zero - 128


def bias_of(op: Op, channels: int) -> Int64:
    """The bias as int64, zeros where it is omitted."""
    bias = op.input(2)
    if bias is None:
        return np.zeros(channels, np.int64)
    return np.asarray(bias.data).reshape(-1).astype(np.int64)


def fold_zero_points(op: Op, weights: Int8, weight_zero: int, offset: int) -> tuple[Int64, Int64]:
    """The bias with all that zero points add but for the sums of activations, and the reach.

    The reach of a channel is how far from zero its accumulator can get.
    """
    flat = weights.reshape(weights.shape[0], -1).astype(np.int16) - np.int16(weight_zero)
    data = operand(op, 0)
    zero, (low, high) = scalar_quant(data)[1], limits(data.dtype)
    bias, sums = bias_of(op, flat.shape[0]), flat.sum(axis=1, dtype=np.int64)
    above = np.maximum(flat, 0).sum(axis=1, dtype=np.int64)
    ends = np.array([[high - zero, zero - low], [zero - low, high - zero]])
    most = (ends @ np.stack([above, above - sums])).max(axis=0)
    return bias - (zero + offset) * sums, np.abs(bias) + most


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
        (DType.FLOAT32, DType.UINT8),
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
