"""Times of a network's operators and kernel calls, as a report shows them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from circlet.backends.profiled import LEVELS_BYTES
from circlet.compiler.planning import PlannedModel
from circlet.plan.partition import Partition
from circlet.profiling.profiler import profile
from circlet.profiling.result import CallRow, Profile
from circlet.report.collect import Measured, first_positions
from circlet.report.data import Roof, Timing
from circlet.runtime.session import Session

_UNITS = (("fp32", "fp32_gflops"), ("int8", "int8_gops"), ("int16", "int16_gops"))
WHOLE = "PARTITION"
"""The kind of a call that is a whole partition."""


def measure(
    session: Session,
    planned: PlannedModel,
    arrays: Sequence[np.ndarray],
    runs: int | None,
    inputs: str,
) -> Measured:
    """What a profile of a session says; `inputs` is what the arrays are, in words.

    Raises:
        CircletError: As `circlet.profile`.
    """
    found = profile(session, arrays, runs=runs)
    operators: dict[int, float] = defaultdict(float)
    for call, place in _places(planned, session.opened.metadata["partitions"], found):
        operators[place] += call.us
    return Measured(
        Timing(found.runs, found.threads, found.plain_us, inputs),
        operators,
        {(call.partition, call.step): call.us for call in found.calls},
        {row.id: row for row in found.operators if row.backend},
        tuple(_roofs(found)),
    )


def _places(
    planned: PlannedModel, facts: Sequence[Mapping[str, object]], found: Profile
) -> Iterator[tuple[CallRow, int]]:
    """Kernel calls with the position of their operator in the plan.

    Steps of a plan name their operator; what numpy ran is told by kind and sources, in order. What
    ran as a whole belongs to no operator.
    """
    firsts = first_positions(planned.partitions)
    waiting = [
        dict(_waiting(part, at)) for part, at in zip(planned.partitions, firsts, strict=True)
    ]
    for call in found.calls:
        steps = facts[call.partition].get("steps")
        left = waiting[call.partition].get((call.kind, call.sources))
        if isinstance(steps, list) and call.kind != WHOLE:
            yield call, firsts[call.partition] + int(steps[call.step][0])
        elif left:
            yield call, left.popleft()


def _waiting(part: Partition, first: int) -> Iterator[tuple[object, deque[int]]]:
    """Positions of operators by kind and sources, in order."""
    found: dict[object, deque[int]] = defaultdict(deque)
    for index, op in enumerate(part.ops, first):
        found[op.label, tuple(source.id for source in op.origin.sources)].append(index)
    yield from found.items()


def _roofs(found: Profile) -> Iterator[Roof]:
    """What all threads of a run could do at most, in the arithmetic that the network has."""
    if found.peaks is None:
        return
    peaks, units = found.peaks, {call.unit for call in found.calls if call.macs}
    for unit, key in _UNITS:
        if unit in units:
            yield Roof(unit, gops=_number(peaks[key]) * found.threads)
    rates = zip(_numbers(peaks["read_gbs"]), _numbers(peaks["copy_gbs"]), strict=True)
    best = [max(pair) * found.threads for pair in rates]
    yield Roof(f"{LEVELS_BYTES[0] >> 10} KiB in the caches", gbs=best[0])
    yield Roof(f"{LEVELS_BYTES[-1] >> 20} MiB in memory", gbs=best[-1])


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def _numbers(values: object) -> list[float]:
    assert isinstance(values, (list, tuple))
    return list(map(_number, values))
