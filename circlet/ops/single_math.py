"""Logarithm, sine and cosine of floats, bit for bit those of the C library that LiteRT calls.

glibc computes them in double by short polynomials and rounds once; so do these, with its numbers
(which are those of Arm's optimized routines).
"""

from __future__ import annotations

from math import log, pi

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

# Reciprocals of middles of sixteenths of [0.699, 1.398], and their logarithms.
_INVERSES = tuple(
    map(
        float.fromhex,
        (
            *("0x1.661ec79f8f3bep+0", "0x1.571ed4aaf883dp+0", "0x1.49539f0f010bp+0"),
            *("0x1.3c995b0b80385p+0", "0x1.30d190c8864a5p+0", "0x1.25e227b0b8eap+0"),
            *("0x1.1bb4a4a1a343fp+0", "0x1.12358f08ae5bap+0", "0x1.0953f419900a7p+0"),
            *("0x1p+0", "0x1.e608cfd9a47acp-1", "0x1.ca4b31f026aap-1"),
            *("0x1.b2036576afce6p-1", "0x1.9c2d163a1aa2dp-1", "0x1.886e6037841edp-1"),
            "0x1.767dcf5534862p-1",
        ),
    )
)
_LOGARITHMS = tuple(-log(value) for value in _INVERSES)
_LOG_TERMS = (-0.4999997485802103, 0.333456765744066, -0.25089342214237154)
_LEAST_FRACTION = 0x3F330000  # the bits of 0.699
_SINE = (-0.16666654943701084, 0.008332178146138854, -0.00019517298981385725)
_COSINE = (
    -0.49999999725108224,
    0.041666623324344516,
    -0.001388676379437604,
    2.4390450703564542e-05,
)
_LARGEST_ANGLE = 120.0


def log_f32(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers."""
    bits = x.view(np.uint32).astype(np.int64)
    exponent = (bits - _LEAST_FRACTION) >> 23
    place = (bits - _LEAST_FRACTION) >> 19 & 15
    fraction = (bits - (exponent << 23)).astype(np.uint32).view(np.float32).astype(np.float64)
    rest = fraction * np.array(_INVERSES)[place] - 1
    whole = np.array(_LOGARITHMS)[place] + exponent * log(2)
    square, (first, second, third) = rest * rest, _LOG_TERMS
    tail = third * square + (second * rest + first)
    return np.asarray((tail * square + (whole + rest)).astype(np.float32))


def sine_cosine_f32(x: Floats) -> tuple[Floats, Floats]:
    """Sine and cosine of angles from 0 to 120 radians."""
    assert x.size == 0 or float(x.max()) < _LARGEST_ANGLE
    wide = x.astype(np.float64)
    quarters = ((wide * (2 / pi * (1 << 24))).astype(np.int64) + (1 << 23)) >> 24
    quarters = np.where(x < np.float32(pi / 4), 0, quarters)
    rest = (wide - quarters * (pi / 2)) * np.array((1.0, -1.0, -1.0, 1.0))[quarters & 3]
    sine, cosine = _sine(rest), _cosine(rest) * np.where(quarters & 2, -1.0, 1.0)
    is_odd = (quarters & 1).astype(bool)
    sides = np.where(is_odd, cosine, sine), np.where(is_odd, sine, cosine)
    return sides[0].astype(np.float32), sides[1].astype(np.float32)


def _sine(x: Doubles) -> Doubles:
    square, (first, second, third) = x * x, _SINE
    cube = square * x
    return (x + cube * first) + cube * square * (second + square * third)


def _cosine(x: Doubles) -> Doubles:
    square, (first, second, third, fourth) = x * x, _COSINE
    fourth_power = square * square
    tail = third + square * fourth
    return (1 + square * first + fourth_power * second) + fourth_power * square * tail
