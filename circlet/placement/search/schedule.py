"""List scheduling: groups by descending rank, each to the backend where it ends earliest.

Heterogeneous Earliest Finish Time (Topcuoglu, Hariri and Wu, 2002), with gaps of the backends'
timelines used where backends overlap, and with one common timeline where they take turns.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from circlet.placement.problem import Problem


def upward_ranks(problem: Problem) -> np.ndarray:
    """(G,) the mean time from the start of each group to the end of the network."""
    mean = np.array([row[np.isfinite(row)].mean() for row in problem.time_ns])
    ranks = mean.copy()
    after: list[list[tuple[int, float]]] = [[] for _ in problem.groups]
    for value, cost in zip(problem.values, problem.transfer_ns, strict=True):
        after[value.writer] += [(reader, float(cost.mean())) for reader in value.readers]
    for group in reversed(range(len(problem.groups))):
        behind = [ranks[reader] + cost for reader, cost in after[group]]
        ranks[group] = mean[group] + max(behind, default=0.0)
    return ranks


def list_schedule(problem: Problem, *, overlapping: bool | None = None) -> np.ndarray:
    """(G,) the backend of each group.

    Args:
        overlapping: Whether backends run at the same time; by default as the executor has it.
    """
    if overlapping is None:
        overlapping = problem.setting.executor == "parallel"
    timelines = _Timelines(problem, overlapping)
    ranks = upward_ranks(problem)
    for group in sorted(range(len(ranks)), key=lambda group: (-ranks[group], group)):
        timelines.place(group)
    return timelines.choice


class _Timelines:
    """When backends are busy, as far as groups are placed."""

    def __init__(self, problem: Problem, overlapping: bool) -> None:
        self._problem, self._overlapping = problem, overlapping
        self.choice = np.full(len(problem.groups), -1, np.int64)
        self._end = np.zeros(len(problem.groups))
        self._busy: list[list[tuple[float, float]]] = [[] for _ in problem.backends]
        self._read: list[list[int]] = [[] for _ in problem.groups]
        for number, value in enumerate(problem.values):
            for reader in value.readers:
                self._read[reader].append(number)

    def place(self, group: int) -> None:
        """Give a group to the backend where it ends first."""
        problem = self._problem
        offers = []
        for backend in np.flatnonzero(problem.allowed[group]).tolist():
            start, added = self._start(group, backend)
            takes = problem.time_ns[group, backend] + added
            begin = self._gap(backend, start, takes) if self._overlapping else start
            offers.append((begin + takes, backend, begin))
        end, backend, begin = min(offers)
        self.choice[group], self._end[group] = backend, end
        if self._overlapping:
            insort(self._busy[backend], (begin, end))

    def _start(self, group: int, backend: int) -> tuple[float, float]:
        """When what the group reads is there, and what it costs besides to begin there."""
        problem, ready, added = self._problem, 0.0, 0.0
        changes = not self._read[group]
        for number in self._read[group]:
            value = problem.values[number]
            writer = int(self.choice[value.writer])
            moved = float(problem.transfer_ns[number, writer, backend])
            changes |= writer != backend
            known = [r for r in value.readers if self.choice[r] == backend]
            if self._overlapping:
                ready = max(ready, self._end[value.writer] + moved)
            elif not known:
                added += moved
        return ready, added + (float(problem.partition_ns[backend]) if changes else 0.0)

    def _gap(self, backend: int, start: float, takes: float) -> float:
        """When the backend is first free for so long."""
        for begin, end in self._busy[backend]:
            if start + takes <= begin:
                return start
            start = max(start, end)
        return start


def partitions_of(problem: Problem, choice: np.ndarray) -> list[tuple[int, list[int]]]:
    """Backend and steps of each partition, in the order in which they run."""
    steps = problem.steps
    chosen = [int(choice[step.group]) for step in steps]
    left, done = list(range(len(steps))), [False] * len(steps)
    parts: list[tuple[int, list[int]]] = []
    while left:
        current, taken, rest = chosen[left[0]], [], []
        for index in left:
            if chosen[index] == current and all(done[before] for before in steps[index].after):
                done[index] = True
                taken.append(index)
            else:
                rest.append(index)
        parts.append((current, taken))
        left = rest
    return parts


def makespan_ns(problem: Problem, choice: np.ndarray) -> float:
    """When the last partition ends, if each starts as soon as its backend and inputs are there."""
    owner: dict[int, int] = {}
    free = [0.0] * len(problem.backends)
    ends: list[float] = []
    counted: set[int] = set()
    moved: set[tuple[int, int]] = set()
    reads: list[list[int]] = [[] for _ in problem.groups]
    for number, value in enumerate(problem.values):
        for reader in value.readers:
            reads[reader].append(number)
    for position, (backend, steps) in enumerate(partitions_of(problem, choice)):
        start, takes = free[backend], float(problem.partition_ns[backend])
        for step in steps:
            group = problem.steps[step].group
            before = {owner[s] for s in problem.steps[step].after if s in owner}
            start = max([start, *(ends[part] for part in before)])
            for number in () if group in counted else reads[group]:
                writer = int(choice[problem.values[number].writer])
                if writer != backend and (number, backend) not in moved:
                    moved.add((number, backend))
                    takes += float(problem.transfer_ns[number, writer, backend])
            takes += 0.0 if group in counted else float(problem.time_ns[group, backend])
            counted.add(group)
        owner.update(dict.fromkeys(steps, position))
        ends.append(start + takes)
        free[backend] = ends[-1]
    return max(ends, default=0.0)
