"""Layer normalisation of int16 gates in fixed point, as TFLite's integer LSTM has it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)

Int64 = npt.NDArray[np.int64]

_EXTRA_BITS = 10
_UNIT = 1 << (2 * _EXTRA_BITS)
_HALF_SQRT_2 = 1518500250
_ONE_AND_A_HALF = (1 << 28) + (1 << 27)


def normalise(
    rows: Int64, weights: Int64, bias: Int64, multiplier: tuple[int, int], least_variance: int
) -> Int64:
    """Rows of mean 0 and variance 1, weighted, biased and scaled to Q3.12."""
    centred = np.stack([_standardised(row, least_variance) for row in rows])
    weighted = wrap_int32(centred * weights + bias)
    rounded = np.where(weighted > 0, weighted + 512, weighted - 512)
    whole = (np.sign(rounded) * (np.abs(rounded) >> _EXTRA_BITS)).astype(np.int64)
    mantissa, shift = multiplier
    result = multiply_by_quantized_multiplier(whole, mantissa, shift + 12)
    return np.clip(result, -(1 << 15), (1 << 15) - 1)


def _standardised(row: Int64, least_variance: int) -> Int64:
    """A row less its mean, over its standard deviation, with 10 more bits."""
    mean = _truncating_divide(int(row.sum()) << _EXTRA_BITS, row.size)
    squares = int((row * row).sum()) * (_UNIT // row.size)
    variance = int(_truncating_divide(squares - mean * mean, _UNIT))
    mantissa, shift = inverse_square_root(variance if variance >= 1 else least_variance)
    return multiply_by_quantized_multiplier((row << _EXTRA_BITS) - mean, mantissa, shift)


def _truncating_divide(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def inverse_square_root(value: int) -> tuple[int, int]:
    """Fixed-point factor (mantissa, shift) of 1 / sqrt(value): Newton's method from 1."""
    if value <= 1:
        return INT32_MAX, 0
    right = 11
    while value >= 1 << 29:
        value, right = value // 4, right + 1
    pairs = (31 - value.bit_length()) // 2 - 1
    right -= pairs
    x = _newton((value << (2 * pairs)) >> 1)
    mantissa = int(saturating_rounding_doubling_high_mul(x, _HALF_SQRT_2))
    return (mantissa << -right, 0) if right < 0 else (mantissa, -right)


def _newton(raw: int) -> int:
    """1 / sqrt(x) of a Q3.28 value."""
    half = int(rounding_divide_by_pot(raw, 1))
    x = 1 << 28
    for _ in range(5):
        cube = _shifted(_mul(_mul(x, x), x), 6)
        x = _shifted(_mul(_ONE_AND_A_HALF, x) - _mul(half, cube), 3)
    return x


def _mul(a: int, b: int) -> int:
    return int(saturating_rounding_doubling_high_mul(a, b))


def _shifted(raw: int, bits: int) -> int:
    return min(max(raw << bits, INT32_MIN), INT32_MAX)
