"""HARD_SWISH on 8-bit values: the 16-bit fixed-point arithmetic of the reference kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.ir import Tensor
from circlet.ops.operands import limits, scale_of, zero_of
from circlet.ops.requantize import quantize_multiplier, rounding_divide_by_pot

Int32 = npt.NDArray[np.int32]

_GUARD_BITS = 7
_REAL_THREE = np.float32(3) / np.float32(32768)


def evaluate(values: npt.NDArray[np.generic], source: Tensor, result: Tensor) -> np.ndarray:
    """x * relu6(x + 3) / 6 of stored values."""
    hires = (values.astype(np.int32) - zero_of(source)) << _GUARD_BITS
    mantissa, shift = _multiplier(_hires_scale(source) / np.float32(scale_of(result)))
    preshift = _rounding_high_mul(hires, mantissa)
    product = _truncating_high_mul(_gate(hires, source), preshift)
    output = rounding_divide_by_pot(product, -shift) + zero_of(result)
    return np.clip(output, *limits(result.dtype)).astype(result.dtype.numpy)


def output_shift(source: Tensor, result: Tensor) -> int:
    """Exponent of the factor from input to output scale; the kernel needs it <= 0."""
    return _multiplier(_hires_scale(source) / np.float32(scale_of(result)))[1]


def _hires_scale(source: Tensor) -> np.float32:
    return np.float32(np.float32(1 / 128) * np.float32(scale_of(source)))


def _gate(hires: Int32, source: Tensor) -> Int32:
    """relu6(x + 3) / 6 as 0..32767."""
    mantissa, shift = _multiplier(_hires_scale(source) / _REAL_THREE)
    value = _saturate(hires << min(shift - 1, 16)) if shift > 0 else hires
    value = _rounding_high_mul(value, mantissa)
    if shift > 0:
        value = _saturate(value << 1)
    if shift < 0:
        value = rounding_divide_by_pot(value, -shift).astype(np.int32)
    return (value + (1 << 15)) >> 1


def _multiplier(factor: np.float32) -> tuple[int, int]:
    """A factor as a 15-bit mantissa and an exponent."""
    mantissa, shift = quantize_multiplier(float(factor))
    if mantissa >= (1 << 31) - 1 - (1 << 15):
        return (1 << 15) - 1, shift
    return (mantissa + (1 << 15)) >> 16, shift


def _saturate(values: Int32) -> Int32:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _rounding_high_mul(a: Int32, b: int) -> Int32:
    """16-bit saturating rounding doubling high multiply."""
    return np.minimum((a * b + (1 << 14)) >> 15, (1 << 15) - 1)


def _truncating_high_mul(a: Int32, b: Int32) -> Int32:
    """16-bit saturating doubling high multiply that rounds towards zero."""
    product = a * b
    return np.minimum(np.sign(product) * (np.abs(product) >> 15), (1 << 15) - 1)
