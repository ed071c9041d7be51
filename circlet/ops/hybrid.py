"""Dynamic quantisation of float rows, as TFLite's hybrid kernels do it before a product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ops.parts import by_rows

_STEPS = 16  # of an element that is quantised
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class QuantisedRows:
    """Rows of whole numbers less their row's zero point (float64), and each row's scale."""

    values: npt.NDArray[np.float64]
    scales: Floats


def quantise_rows(rows: Floats, *, asymmetric: bool) -> QuantisedRows:
    """Each row of [rows, values] to int8 with its own scale (and zero point); NaN gives 0."""
    quantise = _asymmetric if asymmetric else _symmetric

    def quantised(some: Floats) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            found = quantise(some)
        return np.nan_to_num(found.values, nan=0.0), found.scales

    values, scales = by_rows(quantised, rows, _STEPS)
    return QuantisedRows(values, scales)


def _symmetric(rows: Floats) -> QuantisedRows:
    peak = np.abs(rows).max(axis=1, initial=0).astype(np.float32)
    safe = np.where(peak == 0, np.float32(1), peak)
    inverse = np.float32(127) / safe
    values = np.clip(_round(rows * inverse[:, None]), -127, 127)
    scales = np.where(peak == 0, np.float32(1), peak / np.float32(127))
    return QuantisedRows(values.astype(np.float64), scales.astype(np.float32))


def _asymmetric(rows: Floats) -> QuantisedRows:
    """Zero stays exact; the zero point comes from the end whose rounding errs less."""
    low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
    flat = low == high
    scale = np.where(flat, 1.0, (high - low).astype(np.float64) / 255.0)
    from_low, from_high = -128.0 - low / scale, 127.0 - high / scale
    low_errs_less = 128.0 + np.abs(low / scale) < 127.0 + np.abs(high / scale)
    zero = np.clip(_round(np.where(low_errs_less, from_low, from_high)), -128, 127)
    zero = np.where(flat, 0.0, zero)
    scales = scale.astype(np.float32)
    inverse = (np.float32(1) / scales)[:, None]
    shifted = _round(rows * inverse) + zero[:, None]
    values = np.clip(shifted, -128, 127) - zero[:, None]
    return QuantisedRows(np.where(flat[:, None], 0.0, values), scales)


def _round(values: np.ndarray) -> np.ndarray:
    """To the nearest whole number, halves away from zero."""
    rounded: np.ndarray = np.trunc(values + np.copysign(values.dtype.type(0.5), values))
    return rounded
