"""Fixed-point arithmetic of TFLite's integer kernels, on numpy arrays of accumulators."""

from __future__ import annotations

from functools import lru_cache
from math import floor, frexp

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor

Int64 = npt.NDArray[np.int64]

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
FLOAT_ACTIVATION_RANGES = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def quantize_multiplier(multiplier: float) -> tuple[int, int]:
    """The (mantissa, shift) of a real factor: multiplier ~ mantissa * 2**(shift - 31).

    The mantissa is 0 or in [2**30, 2**31). Factors below 2**-32 become 0.
    """
    if multiplier == 0.0:
        return 0, 0
    fraction, shift = frexp(multiplier)
    mantissa = _round_half_away(fraction * (1 << 31))
    if mantissa == 1 << 31:
        mantissa, shift = mantissa // 2, shift + 1
    return (0, 0) if shift < -31 else (mantissa, shift)


def quantize_multipliers(multipliers: npt.ArrayLike) -> tuple[Int64, Int64]:
    """`quantize_multiplier` of each factor of a vector: mantissas and shifts."""
    fractions, exponents = np.frexp(np.atleast_1d(np.asarray(multipliers, np.float64)))
    scaled = fractions * (1 << 31)
    mantissas = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    shifts = exponents.astype(np.int64)
    carried = mantissas == 1 << 31
    mantissas, shifts = np.where(carried, 1 << 30, mantissas), shifts + carried
    vanished = (shifts < -31) | (mantissas == 0)
    return np.where(vanished, 0, mantissas), np.where(vanished, 0, shifts)


def wrap_int32(values: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> Int64:
    """Whole numbers reduced to the int32 range as 32-bit registers do, held in int64."""
    return values.astype(np.int64).astype(np.int32).astype(np.int64)


def saturating_rounding_doubling_high_mul(a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
    """The high 32 bits of 2 * a * b, rounded to nearest, halves up; INT32_MIN squared saturates."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Int64 = np.minimum((product + (1 << 30)) >> 31, INT32_MAX)
    return high


def rounding_divide_by_pot(values: npt.ArrayLike, exponent: npt.ArrayLike) -> Int64:
    """values / 2**exponent, rounded to nearest, halves away from zero."""
    numbers, powers = np.asarray(values, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << powers) - 1
    threshold = (mask >> 1) + (numbers < 0)
    return (numbers >> powers) + ((numbers & mask) > threshold)


def multiply_by_quantized_multiplier(
    values: npt.ArrayLike, mantissa: npt.ArrayLike, shift: npt.ArrayLike
) -> Int64:
    """values * mantissa * 2**(shift - 31), rounded twice, as TFLite's int32 kernels do it.

    Mantissa and shift may be vectors that broadcast against the last axis (per channel).
    """
    shifts = np.asarray(shift, np.int64)
    numbers = np.asarray(values, np.int64)
    if (shifts > 0).any():  # the shift to the left is of 32 bits, and wraps
        numbers = wrap_int32(numbers << np.maximum(shifts, 0))
    scaled = saturating_rounding_doubling_high_mul(numbers, mantissa)
    return rounding_divide_by_pot(scaled, np.maximum(-shifts, 0))


def multiply_rounding_once(
    values: npt.ArrayLike, mantissa: npt.ArrayLike, shift: npt.ArrayLike
) -> Int64:
    """values * mantissa * 2**(shift - 31) of int32 sums, rounded once, halves up, as ruy does it.

    The product has 64 bits; what leaves the int32 range wraps.
    """
    right = 31 - np.asarray(shift, np.int64)
    product = np.asarray(values, np.int64) * np.asarray(mantissa, np.int64)
    return wrap_int32((product + (np.int64(1) << (right - 1))) >> right)


def multiply_wide(values: npt.ArrayLike, mantissa: npt.ArrayLike, shift: npt.ArrayLike) -> Int64:
    """values * mantissa * 2**(shift - 31) of 64-bit accumulators, rounded once, halves up.

    Only the upper 15 bits of the mantissa count; what leaves the int32 range wraps.
    """
    reduced, right = wide_multiplier(mantissa, shift)
    scaled = np.asarray(values, np.int64) * reduced + (np.int64(1) << (right - 1))
    return wrap_int32(scaled >> right)


def wide_multiplier(mantissa: npt.ArrayLike, shift: npt.ArrayLike) -> tuple[Int64, Int64]:
    """The 15-bit multiplier and right shift of `multiply_wide`."""
    whole = np.asarray(mantissa, np.int64)
    reduced = np.where(whole < 0x7FFF0000, (whole + (1 << 15)) >> 16, 0x7FFF)
    return reduced, 15 - np.asarray(shift, np.int64)


def quantize_value(value: float, scale: np.float32, zero_point: int) -> int:
    """The stored form of a real bound: float32 division, halves away from zero.

    Bounds beyond int32 are far outside every stored type and stop there.
    """
    with np.errstate(over="ignore"):
        steps = float(np.float32(value) / scale)
    return zero_point + _round_half_away(min(max(steps, INT32_MIN), INT32_MAX))


@lru_cache(maxsize=64)
def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type, of any number of bits.

    Raises:
        GraphError: It is none.
    """
    if not dtype.is_integer:
        raise GraphError(f"{dtype.name} has no range of integers")
    if dtype.value.startswith("U"):
        return 0, (1 << dtype.bits) - 1
    return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1


def activation_of(op: Op) -> str:
    """The name of the activation fused into an op; "NONE" too where its kind takes none."""
    return str(getattr(op.attrs, "activation", "NONE"))


def activation_range(activation: str, output: Tensor) -> tuple[int, int]:
    """Stored bounds that a fused activation puts on a quantised output tensor."""
    return _activation_range(activation, output.dtype, *scalar_quant(output))


@lru_cache(maxsize=1024)
def _activation_range(
    activation: str, dtype: DType, scale: np.float32, zero_point: int
) -> tuple[int, int]:
    low, high = limits(dtype)
    real_low, real_high = FLOAT_ACTIVATION_RANGES[activation]
    if np.isfinite(real_low):
        low = max(low, quantize_value(real_low, scale, zero_point))
    if np.isfinite(real_high):
        high = min(high, quantize_value(real_high, scale, zero_point))
    return low, high


def activate_float(values: npt.NDArray[np.float32], activation: str) -> npt.NDArray[np.float32]:
    """Real values clamped to the range of a fused activation."""
    low, high = FLOAT_ACTIVATION_RANGES[activation]
    if activation == "NONE":
        return values
    return np.clip(values, np.float32(low), np.float32(high))


def scalar_quant(tensor: Tensor) -> tuple[np.float32, int]:
    """Scale and zero point of a per-tensor quantised tensor; (1, 0) where it has none."""
    quant = tensor.quant
    if quant is None or not quant.is_affine:
        return np.float32(1.0), 0
    return quant.first


def _round_half_away(value: float) -> int:
    return floor(value + 0.5) if value >= 0 else -floor(-value + 0.5)
