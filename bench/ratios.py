"""What ratios mean beside the bars."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from circlet.comparison.ratios import Interval

SMALL_US = 20.0
"""Networks that the best peer runs in less stand apart: calls, not kernels, are compared."""

SMALL_MARGIN_US = 1.0
MET = 0.97
"""A ratio meets a bar if the lower end of its interval is above this part of it."""


def meets(ratio: Interval, bar: float) -> bool:
    """Whether a ratio counts as having reached a bar."""
    return ratio.low > MET * bar


def verdict(least: float, peer_us: float, our_us: float, ratio: Interval) -> str:
    """How a network stands that is to have a ratio of `least`: "met", or "missed"."""
    if peer_us < SMALL_US:
        return "met" if our_us <= peer_us + SMALL_MARGIN_US else "missed"
    return "met" if meets(ratio, least) else "missed"


def mean_ratio(ratios: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing."""
    return geometric_mean(ratios) if ratios else None
