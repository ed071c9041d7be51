"""Tables of int16 functions as the reference kernels make them: 512 straight pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlet.ir import Tensor
from circlet.ops.functions import round_half_away
from circlet.ops.operands import scale_of, zero_of

Floats = npt.NDArray[np.floating]
Table = npt.NDArray[np.int16]
Transform = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]

_PIECES = 512
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1


def tabulated(source: Tensor, result: Tensor, transform: Transform) -> Table:
    """A real function from one tensor's scale to another's, in float32."""
    scale, zero = np.float32(scale_of(source)), zero_of(source)
    low, high = scale * np.float32(_LOW - zero), scale * np.float32(_HIGH - zero)
    return pieces(low, high, _output_factor(result), transform)


def pieces(
    low: np.floating,
    high: np.floating,
    factor: np.floating,
    transform: Callable[..., Floats],
) -> Table:
    """Ends of straight pieces from `low` to `high`, moved by half the error in their middle.

    Computed in the type of `low`; `factor` is steps of the result per unit.
    """
    kind = np.dtype(low).type
    step = kind((high - low) / kind(_PIECES))
    at = low + np.arange(_PIECES + 1, dtype=kind) * step
    at[-1] = high
    with np.errstate(over="ignore", invalid="ignore"):
        ends = transform(at) * factor
        middle = round_half_away(transform(at[:-1] + step / kind(2)) * factor)
        samples = round_half_away(ends)
        straight = round_half_away((ends[1:] + samples[:-1]) / kind(2))
        samples[:-1] -= round_half_away((straight - middle) / kind(2))
    return np.clip(np.nan_to_num(samples), _LOW, _HIGH).astype(np.int16)


def _output_factor(result: Tensor) -> np.float32:
    scale, zero = np.float32(scale_of(result)), zero_of(result)
    low, high = scale * np.float32(_LOW - zero), scale * np.float32(_HIGH - zero)
    return np.float32(np.float32(_HIGH - _LOW + 1) / (high - low))


def apply(table: Table, values: npt.NDArray[np.int16]) -> Table:
    """Each value on its piece; slopes wrap to 16 bits."""
    index = (values.astype(np.int32) >> 7) + _PIECES // 2
    slope = (table[1:].astype(np.int32) - table[:-1]).astype(np.int16).astype(np.int32)
    delta = (slope[index] * (values & 0x7F).astype(np.int32) + 64) >> 7
    return np.asarray(table[index] + delta).astype(np.int16)
