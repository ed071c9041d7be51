"""Time and memory of placements on the model: operators, transfers, partitions, what is held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.placement.problem import Problem, Step
from circlet.placement.search.schedule import makespan_ns

_CHUNK = 4096


class Objective:
    """What placements of a problem cost.

    The time of a linear executor is the sum of all operators, of a transfer for each value and
    backend that reads it and did not make it, and of partitions, counted as
    `circlet.plan.partition` cuts them. Where backends overlap it is that of their schedule.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._group_of = np.array([step.group for step in problem.steps], np.int64)

    def points(self, choices: np.ndarray) -> np.ndarray:
        """(N, 2) time in nanoseconds and memory in bytes of (N, G) numbers of backends."""
        chunks = [choices[at : at + _CHUNK] for at in range(0, len(choices), _CHUNK)]
        found = [np.stack([self._times(c), self.memory(c)], 1) for c in chunks]
        return np.concatenate(found) if found else np.empty((0, 2))

    def point(self, choice: np.ndarray) -> tuple[float, float]:
        """Time and memory of (G,) numbers of backends."""
        time, memory = self.points(np.asarray(choice)[None])[0]
        return float(time), float(memory)

    def memory(self, choices: np.ndarray) -> np.ndarray:
        """(N,) bytes: what any placement needs, groups and backends hold, and lies between them."""
        problem = self.problem
        held = problem.held_bytes[np.arange(len(problem.groups)), choices].sum(1)
        used = np.stack([(choices == b).any(1) for b in range(len(problem.backends))], 1)
        total = problem.base_bytes + held + used @ problem.fixed_bytes
        for value in problem.values:
            readers = choices[:, list(value.readers)]
            total += value.size_bytes * (readers != choices[:, [value.writer]]).any(1)
        return total

    def _times(self, choices: np.ndarray) -> np.ndarray:
        if self.problem.setting.executor == "parallel":
            return np.array([makespan_ns(self.problem, choice) for choice in choices])
        return self.operators(choices) + self.transfers(choices) + self.partitions(choices)

    def operators(self, choices: np.ndarray) -> np.ndarray:
        """(N,) nanoseconds of all operators."""
        return self.problem.time_ns[np.arange(len(self.problem.groups)), choices].sum(1)

    def transfers(self, choices: np.ndarray) -> np.ndarray:
        """(N,) nanoseconds of all transfers."""
        total = np.zeros(len(choices))
        for number, value in enumerate(self.problem.values):
            writer, readers = choices[:, value.writer], choices[:, list(value.readers)]
            total += transfers_of(self.problem.transfer_ns[number], writer, readers)
        return total

    def partitions(self, choices: np.ndarray) -> np.ndarray:
        """(N,) nanoseconds of all partitions."""
        return self.partition_counts(choices) @ self.problem.partition_ns

    def partition_counts(self, choices: np.ndarray) -> np.ndarray:
        """(N, B) how many partitions of each backend there are."""
        start = np.full(len(choices), -1)
        steps = self.problem.steps
        counts, _ = cut(steps, choices[:, self._group_of], start, len(self.problem.backends))
        return counts


def transfers_of(cost: np.ndarray, writer: np.ndarray, readers: np.ndarray) -> np.ndarray:
    """(N,) nanoseconds of handing a value on, once to each backend that did not make it."""
    total = np.zeros(len(writer))
    for backend in range(len(cost)):
        crosses = (readers == backend).any(1) & (writer != backend)
        total += np.where(crosses, cost[writer, backend], 0.0)
    return total


def cut(
    steps: Sequence[Step], chosen: np.ndarray, start: np.ndarray, backends: int
) -> tuple[np.ndarray, np.ndarray]:
    """How `circlet.plan.partition` cuts steps, for many placements at once.

    Args:
        steps: In an order in which they may run; what they run after may be among them only.
        chosen: (N, S) the backend of each step.
        start: (N,) the backend of the partition that is open already; -1 for none.
        backends: How many there are.

    Returns:
        (N, B) partitions that were begun, and (N,) the backend of the last one.
    """
    rows, count = len(chosen), len(steps)
    begun, current = np.zeros((rows, backends)), start.copy()
    if not count:
        return begun, current
    done, wanted = np.zeros((count, rows), bool), np.ascontiguousarray(chosen.T)
    number = np.arange(rows)
    opening = current < 0
    current[opening] = wanted[0, opening]
    np.add.at(begun, (number[opening], current[opening]), 1)
    open_ = list(range(count))
    while True:
        for index in open_:
            after = steps[index].after
            mine = wanted[index] == current
            done[index] |= mine & done[list(after)].all(0) if after else mine
        open_ = [index for index in open_ if not done[index].all()]
        if not open_:
            return begun, current
        missing = ~done[open_]
        left = np.flatnonzero(missing.any(0))
        first = np.array(open_)[missing[:, left].argmax(0)]
        current[left] = wanted[first, left]
        begun[left, current[left]] += 1
