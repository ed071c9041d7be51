"""Medians, their intervals, and what they mean beside the bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

import numpy as np

SMALL_US = 20.0
"""Networks that the best peer runs in less stand apart: calls, not kernels, are compared."""

SMALL_MARGIN_US = 1.0
MET = 0.97
"""A ratio meets a bar if the lower end of its interval is above this part of it."""

_RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A median and the middle 95 % of the medians of resampled values."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Bar:
    """What a class is held to: a geometric mean, and the least ratio of any network."""

    mean: float
    least: float
    aim: float


BARS = {"fp32": Bar(1.3, 1.0, 1.5), "integer": Bar(2.5, 1.2, 4.0), "hybrid": Bar(2.5, 1.2, 4.0)}


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


def meets(ratio: Interval, bar: float) -> bool:
    """Whether a ratio counts as having reached a bar."""
    return ratio.low > MET * bar


def verdict(kind: str, peer_us: float, our_us: float, ratio: Interval) -> str:
    """How a network stands: "met", or what it misses."""
    if peer_us < SMALL_US:
        return "met" if our_us <= peer_us + SMALL_MARGIN_US else "missed"
    return "met" if meets(ratio, BARS[kind].least) else "missed"


def mean_ratio(ratios: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing."""
    return geometric_mean(ratios) if ratios else None
