"""Copies between the host's arrays and memory of backends' own, as steps of a run.

Partitions hand values over as arrays in host memory. A runner over memory of its own is given
what it reads before it runs, and gives back what others read afterwards; each copy is a step that
is timed. What already lies in its kind of memory is not brought there again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.memory import OwnMemory
from circlet.deadline import deadline_after, time_left

if TYPE_CHECKING:
    from circlet.backends.base import Observer, Runner
    from circlet.runtime.executor import LoadedPartition


class CopyStep:
    """A copy of one value between host memory and a runner's own.

    Attributes:
        value: The position of the value in the plan.
        partition: That of the partition whose runner it belongs to.
        is_upload: Whether it goes from host memory to the runner's.
        memory: The kind of the runner's memory.
        ns: Nanoseconds that it took last.
    """

    def __init__(
        self, value: int, partition: int, is_upload: bool, memory: str, copy: Callable[[], None]
    ) -> None:
        self.value, self.partition = value, partition
        self.is_upload, self.memory = is_upload, memory
        self.ns = 0
        self._copy = copy

    def __call__(self) -> None:
        """Copy."""
        start = perf_counter_ns()
        self._copy()
        self.ns = perf_counter_ns() - start


class Carried:
    """A runner over memory of its own between arrays in host memory, as any other runner.

    Attributes:
        runner: The runner.
        uploads, downloads: The copies before and after each run.
    """

    def __init__(self, runner: OwnMemory) -> None:
        self.runner: OwnMemory = runner
        self._plain: Runner = runner  # type: ignore[assignment]
        self.uploads: list[CopyStep] = []
        self.downloads: list[CopyStep] = []

    def run(self, timeout_ns: int = 0) -> None:
        """Copy there, compute and copy back.

        Raises:
            DeadlineError: The timeout passed between two steps.
        """
        deadline = deadline_after(timeout_ns)
        for step in self.uploads:
            step()
        self._plain.run(time_left(deadline))
        for step in self.downloads:
            step()

    def output(self, index: int) -> np.ndarray:
        """The array that output `index` is in after a run."""
        return self._plain.output(index)

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Bring input `index` from another array from now on."""
        self._plain.set_input(index, buffer)

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Bring output `index` to another array from now on."""
        self._plain.set_output(index, buffer)

    def cancel(self) -> None:
        """Stop a run in progress."""
        self._plain.cancel()

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that the runner shows."""
        self._plain.observe(observer)


class Routes:
    """Decides, partition by partition, which values runners over memory of their own copy.

    Args:
        partitions: The plan.
        kept: Values that must lie in host memory after a run, such as the network's outputs; all
            where it is None.
        state: Values that live on from run to run, which are brought anew for each partition.

    Attributes:
        after: Pairs of partitions, of which the later one reads what the earlier one uploads.
    """

    def __init__(
        self,
        partitions: Sequence[LoadedPartition],
        kept: Collection[int] | None,
        state: Collection[int],
    ) -> None:
        self._partitions, self._kept, self._state = partitions, kept, state
        self._homes: dict[tuple[str, int], tuple[int, object]] = {}
        self._needed: set[int] = set()  # in host memory, by partitions that do not share them
        self.after: list[tuple[int, int]] = []

    def route(self, runners: Sequence[Carried | None]) -> None:
        """Set the copies of those runners of a plan that have memory of their own."""
        for number, (part, carried) in enumerate(zip(self._partitions, runners, strict=True)):
            if carried is None:
                self._needed.update(part.inputs)
            else:
                self._take_inputs(number, part, carried)
        for number, (part, carried) in enumerate(zip(self._partitions, runners, strict=True)):
            if carried is not None:
                self._give_outputs(number, part, carried)

    def _take_inputs(self, number: int, part: LoadedPartition, carried: Carried) -> None:
        runner = carried.runner
        for index, value in enumerate(part.inputs):
            home = self._homes.get((runner.memory, value))
            if home is not None and runner.share_input(index, home[1]):
                self.after.append((home[0], number))
                continue
            self._needed.add(value)
            copy = _copy(runner.upload, index)
            carried.uploads.append(CopyStep(value, number, True, runner.memory, copy))
            self._set_home(runner.memory, value, number, runner.input_memory(index))
        for index, value in enumerate(part.outputs):
            if value not in part.dynamic:
                self._set_home(runner.memory, value, number, runner.output_memory(index))

    def _set_home(self, kind: str, value: int, number: int, memory: object) -> None:
        if memory is not None and value not in self._state:
            self._homes[kind, value] = number, memory

    def _give_outputs(self, number: int, part: LoadedPartition, carried: Carried) -> None:
        runner = carried.runner
        for index, value in enumerate(part.outputs):
            is_kept = self._kept is None or value in self._kept or value in part.dynamic
            if is_kept or value in self._needed:
                copy = _copy(runner.download, index)
                carried.downloads.append(CopyStep(value, number, False, runner.memory, copy))


def _copy(move: Callable[[int], None], index: int) -> Callable[[], None]:
    return lambda: move(index)


def carried(runner: object) -> Carried | None:
    """What copies for a runner whose memory is its own; None for others."""
    return Carried(runner) if isinstance(runner, OwnMemory) else None
