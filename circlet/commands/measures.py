"""How far arrays are from others: the measures of ONE's comparisons of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True)
class Measures:
    """How far `b` is from `a`, as real numbers; of several runs the means, and the largest error.

    Attributes:
        different: The share of elements that are not equal.
        largest: max |a - b|.
        mae: Mean absolute error.
        mape: Mean of |a - b| / |a| in percent, over elements that are not 0 in `a`.
        peir: Peak error to interval ratio, max |a - b| / (max a - min a); over several runs its
            mean, which ONE calls MPEIR.
        mse: Mean squared error.
        snr: Signal to noise ratio in dB, 10 log10 (sum a^2 / sum (a - b)^2); infinite for equals.
    """

    different: float
    largest: float
    mae: float
    mape: float
    peir: float
    mse: float
    snr: float


def measures(a: np.ndarray, b: np.ndarray) -> Measures:
    """The measures of two arrays of one shape; elements that are both NaN are equal."""
    first, second = _real(a), _real(b)
    if not first.size:
        return Measures(0, 0, 0, 0, 0, 0, float("inf"))
    with np.errstate(all="ignore"):
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        error = np.where(same, 0, np.abs(first - second))
        error = np.where(np.isnan(error), np.inf, error)
        finite = first[np.isfinite(first)]
        interval = float(finite.max() - finite.min()) if finite.size else 0.0
        counted = (first != 0) & ~np.isnan(first)
        relative = error[counted] / np.abs(first[counted])
        noise, signal = float(np.sum(error**2)), float(np.sum(finite**2))
    largest = float(error.max())
    return Measures(
        different=1 - float(same.mean()),
        largest=largest,
        mae=float(error.mean()),
        mape=100 * float(relative.mean()) if relative.size else 0.0,
        peir=_ratio(largest, interval),
        mse=float(np.mean(error**2)),
        snr=_decibels(signal, noise),
    )


def mean_of(runs: Sequence[Measures]) -> Measures:
    """The measures of several runs together."""
    names = [field.name for field in fields(Measures)]
    means = {name: float(np.mean([getattr(run, name) for run in runs])) for name in names}
    return Measures(**means | {"largest": max(run.largest for run in runs)})


def top_matches(a: np.ndarray, b: np.ndarray, count: int) -> float | None:
    """The share of the largest elements of `a` that are among as many of `b`.

    None where there are not more elements than that.
    """
    if a.size <= count or a.size != b.size:
        return None
    best = [set(np.argsort(-_real(array).reshape(-1), kind="stable")[:count]) for array in (a, b)]
    return len(best[0] & best[1]) / count


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return float("inf")
    ratio = signal / noise
    return 10 * float(np.log10(ratio)) if ratio else float("-inf")


def _ratio(error: float, interval: float) -> float:
    if interval:
        return error / interval
    return float("inf") if error else 0.0


def _real(array: np.ndarray) -> np.ndarray:
    """The elements as float64; pairs of them for complex numbers."""
    if np.iscomplexobj(array):
        return np.stack([array.real, array.imag], -1).astype(np.float64)
    return array.astype(np.float64)
