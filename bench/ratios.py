"""What ratios mean beside the bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from circlet.comparison.ratios import Interval

SMALL_US = 20.0
"""Networks that the best peer runs in less stand apart: calls, not kernels, are compared."""

SMALL_MARGIN_US = 1.0
MET = 0.97
"""A ratio meets a bar if the lower end of its interval is above this part of it."""


@dataclass(frozen=True)
class Bar:
    """What a class is held to: a geometric mean, and the least ratio of any network."""

    mean: float
    least: float
    aim: float


BARS = {"fp32": Bar(1.3, 1.0, 1.5), "integer": Bar(2.5, 1.2, 4.0), "hybrid": Bar(2.5, 1.2, 4.0)}


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
