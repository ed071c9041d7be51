"""Times candidates of one network against each other, in turn, so that all meet the same noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.tuning.candidates import Candidate
from circlet.formats.arrays import Wanted, random_array
from circlet.ir import Tensor
from circlet.ops.state import initial_value

Times = npt.NDArray[np.float64]
R = TypeVar("R")
_VISIT_S = 4e-3
_MOST_RUNS = 50
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 40
_ALIGNMENT = 64


class Running:
    """A candidate on buffers of its own; what crosses partitions is random at the first run."""

    def __init__(self, candidate: Candidate, threads: int = 1) -> None:
        parts = candidate.partitions
        crossing = dict.fromkeys(t for part in parts for t in (*part.read, *part.written))
        self._buffers = {tensor: _aligned(tensor) for tensor in crossing}
        made = {tensor for part in parts for tensor in part.written}
        self._given = [tensor for tensor in crossing if tensor not in made]
        self._outputs = [tensor for tensor in crossing if tensor in made]
        self._bindings = [
            executable.bind(self._arrays(part.read), self._arrays(part.written), threads)
            for executable, part in zip(candidate.executables, parts, strict=True)
        ]
        self.reset()

    def _arrays(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        return [self._buffers[tensor] for tensor in tensors]

    def reset(self) -> None:
        """Fill what is given with the same random data, and variables with their start."""
        for tensor in self._given:
            if tensor.is_variable:
                self._buffers[tensor][...] = initial_value(tensor)
            else:
                buffer = self._buffers[tensor]
                wanted = Wanted(tensor.name, buffer.dtype.name, buffer.shape)
                buffer[...] = random_array(wanted)

    def run(self) -> None:
        """Run every partition in order."""
        for binding in self._bindings:
            binding.run()

    def fastest(self) -> Callable[[], None]:
        """The cheapest way to run again and again."""
        return self._bindings[0].run if len(self._bindings) == 1 else self.run

    def outputs(self) -> list[np.ndarray]:
        """What one run from the start computes."""
        self.reset()
        self.run()
        return [self._buffers[tensor].copy() for tensor in self._outputs]

    def clocks(self) -> list[npt.NDArray[np.uint64]]:
        """Arrays that every run from now on fills with the nanoseconds of each step."""
        return [binding.profile() for binding in self._bindings]


def _aligned(tensor: Tensor) -> np.ndarray:
    """A new array for a tensor that starts on a cache line."""
    dtype = tensor.dtype.numpy
    raw = np.zeros(tensor.elements * dtype.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    return np.ndarray(tensor.static_shape, dtype, raw, start)


class Timer(Protocol):
    """What tuning knows of time."""

    def steps(self, plans: Sequence[Candidate], seconds: float) -> Times:
        """Nanoseconds by round, plan and native step; steps that a plan lacks take none."""
        ...

    def runs(self, plans: Sequence[Candidate], threads: int, seconds: float) -> Times:
        """Seconds of a run by round and plan."""
        ...


class BenchmarkTimer:
    """Times plans on this machine."""

    def steps(self, plans: Sequence[Candidate], seconds: float) -> Times:
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

    def runs(self, plans: Sequence[Candidate], threads: int, seconds: float) -> Times:
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
