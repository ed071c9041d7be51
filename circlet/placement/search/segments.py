"""A problem cut at the groups that everything before leads to and everything behind comes from.

What a placement costs is the sum of what its segments cost, once the backends at the cuts are
known, so that segments can be solved by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from circlet.placement.problem import Problem, Step
from circlet.placement.search.objective import cut, transfers_of


@dataclass(frozen=True)
class Segment:
    """The groups from one cut up to the next.

    Attributes:
        head: The group at the cut; -1 where the network starts without one.
        inner: The groups behind it, in order.
        next: The group at the next cut, -1 at the end of the network.
        steps: The ops of head and inner groups; `group` is a position in `own`.
        values: Numbers of the values that these groups make.
    """

    head: int
    inner: tuple[int, ...]
    next: int
    steps: tuple[Step, ...]
    values: tuple[int, ...]

    @property
    def own(self) -> tuple[int, ...]:
        """The groups that run in this segment."""
        return (*(() if self.head < 0 else (self.head,)), *self.inner)

    @property
    def involved(self) -> tuple[int, ...]:
        """Its own groups, and the one at the next cut."""
        return (*self.own, *(() if self.next < 0 else (self.next,)))


def segments_of(problem: Problem) -> list[Segment]:
    """The segments of a problem, in order."""
    cuts = _cuts(problem)
    ends = [*cuts, len(problem.groups)]
    found = [_segment(problem, -1, range(ends[0]), cuts[0] if cuts else -1)]
    for head, end in pairwise(ends):
        inner = range(head + 1, end)
        found.append(_segment(problem, head, inner, end if end < len(problem.groups) else -1))
    return found


def _cuts(problem: Problem) -> list[int]:
    """Groups that wait for every step of those before, and that every later step waits for."""
    count, steps = len(problem.groups), problem.steps
    before = _ancestors(steps)
    own = [0] * count
    for index, step in enumerate(steps):
        own[step.group] |= 1 << index
    earlier = 0
    found = []
    crossed = {
        group
        for value in problem.values
        for group in range(value.writer + 1, max(value.readers, default=0))
    }
    for group in range(count):
        mine = [i for i in range(len(steps)) if own[group] >> i & 1]
        later = [i for i, step in enumerate(steps) if step.group > group]
        waits = all(before[i] & earlier == earlier for i in mine)
        is_awaited = all(before[i] & own[group] for i in later)
        if waits and is_awaited and group not in crossed:
            found.append(group)
        earlier |= own[group]
    return found


def _ancestors(steps: Sequence[Step]) -> list[int]:
    """For each step those that must run before it, as bits."""
    found: list[int] = []
    for step in steps:
        bits = 0
        for before in step.after:
            bits |= found[before] | 1 << before
        found.append(bits)
    return found


def _segment(problem: Problem, head: int, inner: Sequence[int], following: int) -> Segment:
    own = [*([] if head < 0 else [head]), *inner]
    position = {group: number for number, group in enumerate(own)}
    mine = [i for i, step in enumerate(problem.steps) if step.group in position]
    place = {index: number for number, index in enumerate(mine)}
    steps = [
        Step(
            position[problem.steps[index].group],
            tuple(place[before] for before in problem.steps[index].after if before in place),
        )
        for index in mine
    ]
    values = tuple(n for n, value in enumerate(problem.values) if value.writer in position)
    return Segment(head, tuple(inner), following, tuple(steps), values)


def costs_of(
    problem: Problem, segment: Segment, before: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a segment costs for many placements of it.

    Args:
        before: (N,) the backend of the partition that is open when it begins, -1 for none.
        chosen: (N, I) backends of `segment.involved`, or of the first few of them.

    Returns:
        (N, 2) time and memory of its own groups, and (N,) the backend of its last partition.
    """
    place = {group: number for number, group in enumerate(segment.involved[: chosen.shape[1]])}
    own = [group for group in segment.own if group in place]
    at = chosen[:, [place[group] for group in own]]
    groups = np.array(own, np.int64)
    time = problem.time_ns[groups, at].sum(1)
    memory = problem.held_bytes[groups, at].sum(1).astype(float)
    for number in segment.values:
        value = problem.values[number]
        known = [place[reader] for reader in value.readers if reader in place]
        if value.writer in place and known:
            writer, readers = chosen[:, place[value.writer]], chosen[:, known]
            time += transfers_of(problem.transfer_ns[number], writer, readers)
            memory += value.size_bytes * (readers != writer[:, None]).any(1)
    steps = _steps_up_to(segment.steps, len(own))
    backends = np.array([step.group for step in steps], np.int64)
    begun, last = cut(steps, at[:, backends], before, len(problem.backends))
    time += begun @ problem.partition_ns
    return np.stack([time, memory], 1), last


def _steps_up_to(steps: Sequence[Step], groups: int) -> list[Step]:
    """The steps of the first groups."""
    kept = [index for index, step in enumerate(steps) if step.group < groups]
    place = {index: number for number, index in enumerate(kept)}
    return [
        Step(steps[i].group, tuple(place[before] for before in steps[i].after if before in place))
        for i in kept
    ]
