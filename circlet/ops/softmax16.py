"""SOFTMAX of int16 as the reference kernels compute it: tables of exp(x) and 1 / (1 + x)."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from circlet.ops import lut16
from circlet.ops.requantize import multiply_by_quantized_multiplier, quantize_multiplier

Int64 = npt.NDArray[np.int64]

_LARGEST = (1 << 15) - 1
_DIFFERENCES = 1 << 16
_RANGE = 10.0
_SUM_BITS = 14


@cache
def _exponents() -> lut16.Table:
    """exp(x) for -10 <= x <= 0, in steps of 1 / 32768."""
    return lut16.pieces(np.float64(-_RANGE), np.float64(0), np.float64(1 << 15), np.exp)


@cache
def reciprocals() -> lut16.Table:
    """1 / (1 + x) for 0 <= x <= 1, in steps of 1 / 32768."""
    bounds = np.float64(0), np.float64(1)
    return lut16.pieces(*bounds, np.float64(1 << 15), lambda x: 1 / (1 + x))


def input_factor(scale: float, beta: float) -> float:
    """Real factor from steps of the input to the steps of the table of exponents."""
    return scale * float(np.float32(beta)) / (_RANGE / (_DIFFERENCES - 1))


def powers(factor: float) -> Int64:
    """exp of the differences 0, 1, ... 65535 below the highest element of a row."""
    mantissa, shift = quantize_multiplier(factor)
    differences = -np.arange(_DIFFERENCES, dtype=np.int64)
    scaled = multiply_by_quantized_multiplier(differences, np.int64(mantissa), shift) + _LARGEST
    steps = np.clip(scaled, -_LARGEST - 1, _LARGEST).astype(np.int16)
    return lut16.apply(_exponents(), steps).astype(np.int64)


def softmax(values: npt.NDArray[np.int16], factor: float) -> npt.NDArray[np.int16]:
    """Rows along the last axis, in steps of 1 / 32768."""
    wide = values.astype(np.int64)
    terms = powers(factor)[wide.max(axis=-1, keepdims=True) - wide]
    total = terms.sum(axis=-1, keepdims=True)
    bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    whole = ((total << (31 - bits)) + (1 << (_SUM_BITS - 1))) >> _SUM_BITS
    above_one = np.clip(whole - 3 * (1 << 15), -_LARGEST - 1, _LARGEST).astype(np.int16)
    scale = lut16.apply(reciprocals(), above_one).astype(np.int64)
    shares = (terms * scale + (1 << (bits - 2))) >> (bits - 1)
    return np.clip(shares, 0, _LARGEST).astype(np.int16)
