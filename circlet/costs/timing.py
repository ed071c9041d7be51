"""Times of runs: medians, and the interval that nine in ten runs lie in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

Clock = Callable[[], int]
Run = Callable[..., object]
_FEWEST, _MOST = 5, 200
_FEWEST_SLOW, _PATIENCE = 2, 5  # where each run takes more than the budget
_SAMPLE_NS = 20_000  # what a sample takes at the least: the clock itself takes a part of it
_MOST_REPEATS = 256
_WARM_RUNS, _WARM_SHARE = 10, 5
_QUANTILES = (0.05, 0.5, 0.95)


class Timing(NamedTuple):
    """Nanoseconds of a run: the median, and the interval of nine in ten."""

    ns: float
    low: float
    high: float


@dataclass(frozen=True)
class Meter:
    """How runs are timed.

    Attributes:
        budget_ns: About how long the timed runs of one operator take together.
        limit_ns: When one run is stopped, by backends that can be.
        clock: Nanoseconds now.
    """

    budget_ns: int = 40_000_000
    limit_ns: int = 10_000_000_000
    clock: Clock = perf_counter_ns

    def time(self, run: Run) -> Timing:
        """The time of a run."""
        return self.times([run])[0]

    def times(self, runs: Sequence[Run]) -> list[Timing]:
        """The times of runs that take turns, so that all meet the same noise."""
        repeats = [self._warmed(run) for run in runs]
        samples: list[list[float]] = [[] for _ in runs]
        begin, budget = self.clock(), self.budget_ns * len(runs)
        while len(samples[0]) < _MOST:
            for run, count, own in zip(runs, repeats, samples, strict=True):
                own.append(self._sample(run, count) / count)
            spent = self.clock() - begin
            fewest = _FEWEST if spent < _PATIENCE * budget else _FEWEST_SLOW
            if len(samples[0]) >= fewest and spent > budget:
                break
        return [_timing(own) for own in samples]

    def _sample(self, run: Run, count: int) -> int:
        limit, start = self.limit_ns, self.clock()
        for _ in range(count):
            run(limit)
        return self.clock() - start

    def _warmed(self, run: Run) -> int:
        """How often a run is repeated for one sample; runs that do not count come first."""
        self._sample(run, 1)
        least, spent = self._sample(run, 1), 0
        for _ in range(_WARM_RUNS):
            if spent + least > self.budget_ns // _WARM_SHARE:
                break
            last = self._sample(run, 1)
            least, spent = min(least, last), spent + last
        return min(_MOST_REPEATS, max(1, _SAMPLE_NS // max(least, 1)))


DEFAULT_METER = Meter()


def _timing(samples: Sequence[float]) -> Timing:
    low, median, high = np.quantile(samples, _QUANTILES)
    return Timing(float(median), float(low), float(high))
