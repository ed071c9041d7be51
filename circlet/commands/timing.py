"""Times repeated runs of a bound session."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from circlet.progress import Stage


@dataclass(frozen=True)
class RunTimes:
    """Wall time of runs: the first, and of those after the warm-up the count, median and spread."""

    first_ms: float
    repeats: int
    median_ms: float
    fastest_ms: float
    slowest_ms: float


def time_runs(
    call: Callable[[], None],
    repeat: int,
    warmup: int,
    delay_s: float = 0.0,
) -> RunTimes:
    """Run `call` once, then `warmup` times untimed, then `repeat` times with pauses between."""
    stage = Stage("running", 1 + warmup + repeat, "runs")
    first = _timed(call)
    stage.advance(1)
    for _ in range(warmup):
        call()
        stage.advance(1)
    rest = []
    for _ in range(repeat):
        if delay_s:
            time.sleep(delay_s)
        rest.append(_timed(call))
        stage.advance(1)
    shown = rest or [first]
    return RunTimes(first, len(rest), statistics.median(shown), min(shown), max(shown))


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3
