"""Fixed-point exp and reciprocal of 32-bit raw values, as gemmlowp defines them.

A raw value r with i integer bits stands for r / 2**(31 - i); "Q5.26" has 5. Arrays are int64
that hold int32 values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)

Int64 = npt.NDArray[np.int64]

wrap = wrap_int32
high_mul = saturating_rounding_doubling_high_mul

_EXP_MINUS_EIGHTH = 1895147668  # e**(-1/8) in Q0.31
_THIRD = 715827883  # 1/3 in Q0.31
_EXP_FRACTION_BITS = 26
_QUARTER = 1 << (_EXP_FRACTION_BITS - 2)
# n and e**(-2**n) in Q0.31, for each bit of a Q5.26 magnitude from a quarter up.
EXP_STEPS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
# 48/17 - 32/17 d is the line that is least wrong for 1 / d on [1/2, 1]; in Q2.29.
_48_OVER_17 = 1515870810
_MINUS_32_OVER_17 = -1010580540
_Q2_ONE = 1 << 29


def exp_on_negative(raw: Int64) -> Int64:
    """exp of a Q5.26 value <= 0, as Q0.31: a quarter-wide polynomial times powers of e."""
    inside = (raw & (_QUARTER - 1)) - _QUARTER
    result = _exp_near_zero(wrap(inside << 5))
    remainder = inside - raw
    for exponent, multiplier in EXP_STEPS:
        bit = (remainder >> (_EXP_FRACTION_BITS + exponent)) & 1
        result = np.where(bit, high_mul(result, multiplier), result)
    return np.where(raw == 0, INT32_MAX, result)


def _exp_near_zero(raw: Int64) -> Int64:
    """exp of a Q0.31 value in [-1/4, 0), by a Taylor polynomial around -1/8."""
    x = raw + (1 << 28)
    x2 = high_mul(x, x)
    x3 = high_mul(x2, x)
    x4 = high_mul(x2, x2)
    x4_over_4 = rounding_divide_by_pot(x4, 2)
    sixth = rounding_divide_by_pot(high_mul(x4_over_4 + x3, _THIRD) + x2, 1)
    return saturating_add(_EXP_MINUS_EIGHTH, high_mul(_EXP_MINUS_EIGHTH, x + sixth))


def saturating_add(a: int, b: Int64) -> Int64:
    """Sum limited to the int32 range."""
    return np.clip(a + b, INT32_MIN, INT32_MAX)


def reciprocal(raw: Int64, integer_bits: int) -> tuple[Int64, Int64]:
    """1 / x of a positive value as (Q0.31 mantissa, bits by which x is over 1)."""
    headroom = 31 - _bit_length(raw) + 1
    over_unit = integer_bits - headroom
    fraction = wrap((raw << headroom) - (1 << 31))
    return _one_over_one_plus(fraction), over_unit


def _bit_length(raw: Int64) -> Int64:
    return np.frexp(raw.astype(np.float64))[1].astype(np.int64)


def _one_over_one_plus(fraction: Int64) -> Int64:
    """1 / (1 + x) for Q0.31 x in [0, 1): Newton's method from a linear estimate."""
    half_denominator = _rounding_half_sum(fraction, INT32_MAX)
    x = _48_OVER_17 + high_mul(half_denominator, _MINUS_32_OVER_17)
    for _ in range(3):
        error = _Q2_ONE - high_mul(half_denominator, x)
        x = wrap(x + _saturating_shift_left(high_mul(x, error), 2))
    return _saturating_shift_left(x, 1)


def _rounding_half_sum(a: Int64, b: int) -> Int64:
    total = a + b
    return np.sign(total) * ((np.abs(total) + 1) // 2)


def _saturating_shift_left(raw: Int64, bits: int) -> Int64:
    return np.clip(raw << bits, INT32_MIN, INT32_MAX)
