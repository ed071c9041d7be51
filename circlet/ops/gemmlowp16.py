"""Fixed-point logistic and tanh of 16-bit raw values, as gemmlowp defines them.

A raw value r with i integer bits stands for r / 2**(15 - i). Arrays are int64 that hold int16
values. There are 65536 arguments, so each function is computed once for all of them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from circlet.ops.gemmlowp import EXP_STEPS
from circlet.ops.requantize import rounding_divide_by_pot

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]

ONE = 32767
LOGISTIC_INTEGER_BITS = 3


def constant(raw: int) -> int:
    """A 32-bit raw constant with the same integer bits in 16 bits."""
    return int(rounding_divide_by_pot(raw, 16))


EXP_MINUS_EIGHTH = constant(1895147668)
THIRD = constant(715827883)
FORTY_EIGHT_OVER_17 = constant(1515870810)
MINUS_32_OVER_17 = constant(-1010580540)
_Q2_ONE = 1 << 13


def high_mul(a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
    """The high 16 bits of 2 * a * b, rounded to nearest, halves up, saturated."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Int64 = np.minimum((product + (1 << 14)) >> 15, ONE)
    return high


def logistic(values: Int16) -> Int16:
    """1 / (1 + exp(-x)) of Q3.12 values, as Q0.15."""
    return _logistic_table()[values.astype(np.int64) + (1 << 15)]


def tanh(values: Int16, integer_bits: int) -> Int16:
    """Hyperbolic tangent of values with 0 to 4 integer bits, as Q0.15."""
    return _tanh_table(integer_bits)[values.astype(np.int64) + (1 << 15)]


@lru_cache(maxsize=1)
def _logistic_table() -> Int16:
    values = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    power = exp_on_negative(-np.abs(values), LOGISTIC_INTEGER_BITS)
    positive = np.clip(_reciprocal_of_one_plus(power) << 1, -ONE - 1, ONE)
    table = np.where(values > 0, positive, ONE - positive)
    return np.where(values == 0, 1 << 14, table).astype(np.int16)


@lru_cache(maxsize=8)
def _tanh_table(integer_bits: int) -> Int16:
    values = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    power = exp_on_negative(-np.abs(values), integer_bits + 1)
    size = np.clip((_reciprocal_of_one_plus(power) - _Q2_ONE) << 2, -ONE - 1, ONE)
    return np.where(values == 0, 0, np.where(values < 0, -size, size)).astype(np.int16)


def exp_on_negative(raw: Int64, integer_bits: int) -> Int64:
    """exp of values <= 0 as Q0.15: a quarter-wide polynomial times powers of e."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (raw & (quarter - 1)) - quarter
    result = _exp_near_zero(inside << integer_bits)
    remainder = inside - raw
    for exponent, multiplier in EXP_STEPS:
        if exponent >= integer_bits:
            break
        bit = (remainder >> (fraction_bits + exponent)) & 1
        result = np.where(bit, high_mul(result, constant(multiplier)), result)
    return np.where(raw == 0, ONE, result)


def _exp_near_zero(raw: Int64) -> Int64:
    """exp of a Q0.15 value in [-1/4, 0), by a Taylor polynomial around -1/8."""
    x = raw + (1 << 12)
    x2 = high_mul(x, x)
    x3, x4 = high_mul(x2, x), high_mul(x2, x2)
    inner = high_mul(rounding_divide_by_pot(x4, 2) + x3, THIRD) + x2
    power = x + rounding_divide_by_pot(inner, 1)
    return np.minimum(EXP_MINUS_EIGHTH + high_mul(EXP_MINUS_EIGHTH, power), ONE)


def _reciprocal_of_one_plus(power: Int64) -> Int64:
    """2 / (1 + x) as Q2.13 for Q0.15 x in [0, 1]: Newton's method from a linear estimate."""
    half = (power + ONE + 1) >> 1
    x = FORTY_EIGHT_OVER_17 + high_mul(half, MINUS_32_OVER_17)
    for _ in range(3):
        error = _Q2_ONE - high_mul(half, x)
        x = x + np.clip(high_mul(x, error) << 2, -ONE - 1, ONE)
    return x
