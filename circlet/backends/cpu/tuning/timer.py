"""Times plans of one network against each other, in turn, so that all meet the same noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.loader import Binding
from circlet.formats.arrays import Wanted, random_array
from circlet.runtime.executor import Execution, living
from circlet.runtime.loading import Opened

Times = npt.NDArray[np.float64]
R = TypeVar("R")
_VISIT_S = 4e-3
_MOST_RUNS = 50
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 40


class Running(Execution):
    """A loaded plan on buffers of its own, whose inputs hold the same random data each time."""

    def __init__(self, opened: Opened, threads: int = 1) -> None:
        self._opened = opened
        self._buffers = [value.empty() for value in opened.values]
        state = living(opened.values, self._buffers)
        super().__init__(opened.partitions, self._buffers, threads, state)

    def reset(self) -> None:
        """Fill inputs, and set what lives on from run to run back to its start."""
        super().reset()
        for index in self._opened.inputs:
            value = self._opened.values[index]
            wanted = Wanted(value.name, value.dtype, value.shape)
            self._buffers[index][...] = random_array(wanted)

    def outputs(self) -> list[np.ndarray]:
        """The outputs of one run from the start."""
        self.reset()
        self.run()
        return [self._buffers[index].copy() for index in self._opened.outputs]

    def clocks(self) -> list[npt.NDArray[np.uint64]]:
        """Arrays that every run from now on fills with the nanoseconds of each native step."""
        return [runner.profile() for runner in self._runners if isinstance(runner, Binding)]


class Timer(Protocol):
    """What tuning knows of time."""

    def steps(self, plans: Sequence[Opened], seconds: float) -> Times:
        """Nanoseconds by round, plan and native step; steps that a plan lacks take none."""
        ...

    def runs(self, plans: Sequence[Opened], threads: int, seconds: float) -> Times:
        """Seconds of a run by round and plan."""
        ...


class BenchmarkTimer:
    """Times plans on this machine."""

    def steps(self, plans: Sequence[Opened], seconds: float) -> Times:
        """Nanoseconds by round, plan and native step, the least of several runs on one thread."""
        running = [Running(plan) for plan in plans]
        clocks = [each.clocks() for each in running]
        widest = max(sum(clock.size for clock in own) for own in clocks)

        def visit(number: int) -> Times:
            least = np.full(widest, np.inf)
            for _ in _runs(running[number].fastest()):
                times = np.concatenate(clocks[number])
                least[: times.size] = np.minimum(least[: times.size], times)
            return np.where(np.isinf(least), 0.0, least)

        return np.array(_rounds(len(plans), visit, seconds))

    def runs(self, plans: Sequence[Opened], threads: int, seconds: float) -> Times:
        """Seconds by round and plan, the least of several runs."""
        running = [Running(plan, threads) for plan in plans]

        def visit(number: int) -> float:
            return min(_runs(running[number].fastest()))

        return np.array(_rounds(len(plans), visit, seconds))


def is_faster(before: Times, after: Times, margin: float) -> bool:
    """Whether rounds agree that time was saved.

    More than the margin in the median of rounds and between the least times, which what else the
    machine does disturbs least; and something in three of four rounds.
    """
    if len(before) < _FEWEST_ROUNDS or min(before) <= 0:
        return False
    ratios, least = after / before, float(min(after) / min(before))
    median, upper = np.quantile(ratios, (0.5, 0.75))
    return bool(max(median, least) < 1 - margin and upper < 1)


def _runs(run: Callable[[], None]) -> Iterator[float]:
    """Times of a few runs, after one that brings the plan's data back into the caches."""
    run()
    taken, count = 0.0, 0
    while taken < _VISIT_S and count < _MOST_RUNS:
        start = perf_counter()
        run()
        last = perf_counter() - start
        taken, count = taken + last, count + 1
        yield last


def _rounds(count: int, visit: Callable[[int], R], seconds: float) -> list[list[R]]:
    """What visits to each of `count` plans found, another one first in every round."""
    deadline = perf_counter() + seconds
    rounds: list[list[R]] = []
    while len(rounds) < _FEWEST_ROUNDS or perf_counter() < deadline:
        order = [(number + len(rounds)) % count for number in range(count)]
        found = {number: visit(number) for number in order}
        rounds.append([found[number] for number in range(count)])
        if len(rounds) == _MOST_ROUNDS:
            break
    return rounds
