"""Kernel calls beside the roofline: the least time that the machine's peaks allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from circlet.backends.profiled import Peaks, Work


@dataclass(frozen=True)
class TimedWork:
    """A kernel call and its time, in microseconds."""

    work: Work
    us: float


class Machine(NamedTuple):
    """What rooflines depend on beside a kernel call.

    Attributes:
        peaks: Those of a core.
        threads: Threads of the run.
        resident_bytes: Packed constants and arenas: what a run goes through.
    """

    peaks: Peaks
    threads: int
    resident_bytes: int


class Least(NamedTuple):
    """The least microseconds of arithmetic, and of the bytes of weights and of activations."""

    arithmetic: float = 0.0
    weights: float = 0.0
    data: float = 0.0

    @property
    def memory(self) -> float:
        """All bytes."""
        return self.weights + self.data

    @property
    def us(self) -> float:
        """What no run can beat: both go on at the same time."""
        return max(self.arithmetic, self.memory)

    @property
    def bound(self) -> str:
        """What sets it: "arithmetic" or "memory"."""
        return "arithmetic" if self.arithmetic >= self.memory else "memory"


def least_times(work: Work, machine: Machine) -> Least:
    """The least times of a kernel call.

    Weights come from where all that a run goes through fits, activations from where those of the
    call fit: they were written a moment ago.
    """
    peaks, threads = machine.peaks, machine.threads
    arithmetic = 2 * work.macs * work.made / peaks.gops(work)
    weights = work.constant_bytes / peaks.bandwidth(machine.resident_bytes)
    data = work.data_bytes / peaks.bandwidth(work.bytes)
    return Least(*(ns / threads / 1e3 for ns in (arithmetic, weights, data)))


def total(parts: Iterable[tuple[Least, float]]) -> Least:
    """Least times of parts of kernel calls: each call with the part of it that counts."""
    sums = [0.0, 0.0, 0.0]
    for least, share in parts:
        for index, us in enumerate(least):
            sums[index] += us * share
    return Least(*sums)
