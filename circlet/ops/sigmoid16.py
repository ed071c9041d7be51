"""LOGISTIC and TANH of int16 values as the reference kernels compute them: 256 linear segments.

Both read one table of the logistic function over 0 <= x < 256 / 24, for tanh(x) is
2 logistic(2 x) - 1; values are brought to the table's steps by an integer factor and a shift.
"""

from __future__ import annotations

from functools import cache
from math import frexp

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops.operands import operand, scale_of

Int64 = npt.NDArray[np.int64]

_PIECES = 256
_STEPS_PER_UNIT = 24
_TABLE_BITS = 16
_LARGEST_FACTOR = 32767 / 2
_MOST_SHIFT = 31
_EXPONENT = -12
_TABLE_STEPS = 3 << 12


@cache
def _table() -> Int64:
    """Ends of the pieces, moved by half the error of a straight line in the middle of each."""
    at = np.arange(_PIECES, dtype=np.float64)
    bent = _curve(at + 0.5) - (_curve(at) + _curve(at + 1)) / 2
    whole = np.rint(_curve(at) + bent / 2).astype(np.int64)
    whole[-1] = (1 << _TABLE_BITS) - 1  # uint16 in the reference
    return whole


def _curve(steps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    logistic: npt.NDArray[np.float64] = (1 << _TABLE_BITS) / (1 + np.exp(-steps / _STEPS_PER_UNIT))
    return logistic


def is_in_reach(op: Op) -> bool:
    """Whether an input times the factor to steps of the table fits into 32 bits."""
    return scale_of(operand(op, 0)) * _TABLE_STEPS < 1 << 16


def _factor(op: Op, exact_exponents: tuple[int, ...]) -> tuple[int, int]:
    """Factor and right shift to steps of the table; scales of powers of two have exact ones."""
    scale = scale_of(operand(op, 0))
    mantissa, exponent = frexp(scale)
    left = exponent - 1 - _EXPONENT
    if mantissa == 0.5 and left in exact_exponents:
        return 3 << left, 0
    real, shift = scale * _TABLE_STEPS, 0
    while real <= _LARGEST_FACTOR and shift < _MOST_SHIFT:
        real, shift = real * 2, shift + 1
    return int(real), shift


def _scaled(values: npt.NDArray[np.int16], factor: int, shift: int) -> Int64:
    rounding = 1 << (shift - 1) if shift else 0
    return (values.astype(np.int64) * factor + rounding) >> shift


def _interpolated(steps: Int64, bits: int) -> Int64:
    """The table at `steps` of 2**-bits pieces, times 2**bits; its end beyond the last piece."""
    table, index = _table(), steps >> bits
    inside = np.minimum(index, _PIECES - 2)
    low, high = table[inside], table[inside + 1]
    return (low << bits) + (steps & ((1 << bits) - 1)) * (high - low)


def logistic(op: Op, values: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Results on a scale of 1 / 32768."""
    scaled = _scaled(values, *_factor(op, (0,)))
    steps = np.abs(scaled)
    piece = np.where(steps >> 9 >= _PIECES - 1, 0x7FFF << 10, _interpolated(steps, 9))
    # 1 - y for negative x: its halves are rounded down where those of y go up.
    mirrored = (1 << 25) - piece + (1 << 9) - 1
    return (np.where(scaled >= 0, piece + (1 << 9), mirrored) >> 10).astype(np.int16)


def tanh(op: Op, values: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Results on a scale of 1 / 32768."""
    scaled = _scaled(values, *_factor(op, (0, 1)))
    steps = np.abs(scaled)
    piece = np.where(steps >> 8 >= _PIECES - 1, 0xFFFF << 8, _interpolated(steps, 8))
    half, rounding = 1 << 23, 1 << 7
    whole = np.where(scaled >= 0, piece - half + rounding, half - piece + rounding - 1)
    return (whole >> 8).astype(np.int16)
