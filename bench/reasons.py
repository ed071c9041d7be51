"""Integer kernel calls beside their float forms, and why they are not faster where they are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.explain_rows import roofline_us
from bench.steps import Profile
from circlet.backends.profiled import Peaks
from circlet.profiling.roofline import TimedWork

WORTH = 1.2
"""Integers that are not so many times faster than floats need a reason."""

_CLOSE = 0.5
_MUCH = 0.25
_SHORT_US = 1.0


@dataclass(frozen=True)
class Beside:
    """One source operator, or several that kernels join, in integers and in floats.

    Attributes:
        sources: Their names.
        us, float_us: Time of all their kernel calls.
        reason: Why integers are not `WORTH` times faster, or "".
    """

    sources: str
    us: float
    float_us: float
    reason: str


def beside(found: Profile, floats: Profile, peaks: Peaks) -> list[Beside]:
    """The operators of an integer network with those of its float twin."""
    groups = list(_groups([found.rows, floats.rows]))
    rows = []
    for ids in groups:
        ours, theirs = _within(found.rows, ids), _within(floats.rows, ids)
        us, float_us = sum(row.us for row in ours), sum(row.us for row in theirs)
        if not ours or not theirs:
            continue
        slow = float_us < WORTH * us
        reason = why(ours, theirs, found, peaks) if slow else ""
        names = dict(source for row in ours for source in row.work.sources)
        rows.append(Beside("+".join(names.values()), us, float_us, reason))
    return rows


def why(
    ours: Sequence[TimedWork], theirs: Sequence[TimedWork], found: Profile, peaks: Peaks
) -> str:
    """The reason, from the figures of the kernel calls alone."""
    us = sum(row.us for row in ours)
    if all(row.work.unit == "fp32" for row in ours):
        return "it is computed in floats, as its activations are"
    if us < _SHORT_US:
        return f"{us:.2f} us in all: starting a call counts as much as its work"
    macs, outputs = sum(r.work.macs for r in ours), sum(r.work.outputs for r in ours)
    size = sum(row.work.bytes for row in ours)
    if macs <= outputs:
        wide = sum(row.work.bytes for row in theirs)
        return (
            f"no products to speed up; {size / us / 1e3:.1f} GB/s, "
            f"{wide / sum(row.us for row in theirs) / 1e3:.1f} GB/s in floats"
        )
    limits = [roofline_us(row, found, peaks) for row in ours]
    arithmetic, memory = sum(a for a, _ in limits), sum(m for _, m in limits)
    if memory > arithmetic and memory > _CLOSE * us:
        return f"memory: {100 * memory / us:.0f} % of the time is what its {size} bytes need"
    requantised = outputs / peaks.requantised_gops / found.threads / 1e3
    if requantised > _MUCH * us:
        return (
            f"requantisation: {macs / outputs:.0f} products an output, "
            f"{100 * requantised / us:.0f} % of the time"
        )
    copies = sum(row.us for row in ours if not row.work.macs)
    if copies > _MUCH * us:
        return f"copies and borders: {100 * copies / us:.0f} % of the time"
    return (
        f"the kernel is at {100 * arithmetic / us:.0f} % of the peak of {ours[0].work.unit}, "
        f"{macs / outputs:.0f} products an output"
    )


def _groups(profiles: Iterable[Sequence[TimedWork]]) -> Iterator[frozenset[int]]:
    """Source operators that kernel calls of any profile share, as disjoint sets."""
    groups: list[frozenset[int]] = []
    for rows in profiles:
        for row in rows:
            joined = frozenset(number for number, _ in row.work.sources)
            meeting = [group for group in groups if group & joined]
            groups = [group for group in groups if not group & joined]
            groups.append(joined.union(*meeting))
    yield from sorted(groups, key=min)


def _within(rows: Sequence[TimedWork], ids: frozenset[int]) -> list[TimedWork]:
    return [row for row in rows if {number for number, _ in row.work.sources} <= ids]
