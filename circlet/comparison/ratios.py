"""Medians, and their intervals: how far a repetition of the measurement may lie from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

_RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A median and the middle 95 % of the medians of resampled values."""

    middle: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The median of values with a bootstrap interval; the resampling is seeded."""
    if not values:
        raise ValueError("no values")
    drawn = np.random.default_rng(0).choice(np.asarray(values, float), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return Interval(median(values), float(low), float(high))


def best_peer(rounds: dict[str, list[float]], ours: str = "circlet") -> str:
    """The peer with the least median over rounds; "" where none ran."""
    peers = {name: median(times) for name, times in rounds.items() if name != ours}
    return min(peers, key=lambda name: peers[name], default="")


def ratio_of(rounds: dict[str, list[float]], peer: str, ours: str = "circlet") -> Interval:
    """The peer's time over ours, round by round: above 1 we are faster."""
    return interval([a / b for a, b in zip(rounds[peer], rounds[ours], strict=True)])
