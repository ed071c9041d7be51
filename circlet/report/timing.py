"""Times of a network's operators, as a report shows them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter_ns

import numpy as np

from circlet.backends.base import Observation
from circlet.ir import Op
from circlet.progress import Stage
from circlet.report.collect import Measured
from circlet.report.data import Timing
from circlet.runtime.session import Session

Named = tuple[str, str]


def measure(
    session: Session, ops: Sequence[Op], arrays: Sequence[np.ndarray], runs: int, inputs: str
) -> Measured:
    """Run a session so many times, and once before; medians of each operator's times.

    Args:
        ops: Those of the session's plan, in order.
        inputs: What the arrays are, in words.
    """
    places = _places(ops)
    samples: list[Mapping[int, float]] = []
    walls: list[float] = []
    stage = Stage("running", 2 * runs + 1, "runs")
    session.run(arrays)
    for _ in range(runs):
        samples.append(_observed(session, arrays, places))
        start = perf_counter_ns()
        session.run(arrays)
        walls.append((perf_counter_ns() - start) / 1e3)
        stage.advance(2)
    seen = dict.fromkeys(index for sample in samples for index in sample)
    operators = {i: median([sample.get(i, 0.0) for sample in samples]) for i in seen}
    timing = Timing(runs, session.threads, median(walls), inputs)
    return Measured(timing, operators, _by_source(ops, operators))


def _places(ops: Sequence[Op]) -> dict[Named, list[int]]:
    places: dict[Named, list[int]] = defaultdict(list)
    for index, op in enumerate(ops):
        places[op.label, op.name].append(index)
    return places


def _observed(
    session: Session, arrays: Sequence[np.ndarray], places: Mapping[Named, Sequence[int]]
) -> Mapping[int, float]:
    """Microseconds of each operator in one run; those of one kind and name come in order."""
    left = {named: deque(found) for named, found in places.items()}
    times: dict[int, float] = {}

    def observer(seen: Observation) -> None:
        found = left.get((seen.kind, seen.name))
        if found:
            times[found.popleft()] = seen.ns / 1e3

    session.run(arrays, observer=observer)
    return times


def _by_source(ops: Sequence[Op], operators_us: Mapping[int, float]) -> dict[int, float]:
    """Times of source operators: those of one operator are shared out evenly among its sources."""
    times: dict[int, float] = defaultdict(float)
    for index, us in operators_us.items():
        sources = ops[index].origin.sources
        for source in sources:
            times[source.id] += us / len(sources)
    return dict(times)
