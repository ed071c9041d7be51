"""Runs a plan's partitions in order, once per call, on buffers that are bound ahead of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from circlet.errors import CancelledError, DeadlineError
from circlet.record import Record

if TYPE_CHECKING:
    from circlet.runtime.interface import BoundPartition, Setter

NANOSECONDS = 1_000_000_000


class LoadedPartition(Record):
    """A partition and the values (by position in the plan) that it reads and writes.

    `dynamic` are the values written whose shapes only a run decides.
    """

    code: BoundPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dynamic: tuple[int, ...] = ()


class Execution:
    """A plan bound to one set of buffers; not to be run by two threads at once.

    Args:
        partitions: The plan.
        buffers: One array for each value of the plan.
        threads: Threads of a run.
        state: The arrays among the buffers that keep their values from run to run, and the bytes
            that they start as.
    """

    def __init__(
        self,
        partitions: Sequence[LoadedPartition],
        buffers: Sequence[np.ndarray],
        threads: int,
        state: Sequence[tuple[np.ndarray, bytes]] = (),
    ) -> None:
        self._partitions = partitions
        self._cancelled = False
        self._state = state
        self.reset()
        self._runners = [
            part.code.bind(
                [buffers[i] for i in part.inputs], [buffers[i] for i in part.outputs], threads
            )
            for part in partitions
        ]
        self._ports: dict[int, list[tuple[Setter, int]]] = {}
        for part, runner in zip(partitions, self._runners, strict=True):
            for setter, values in (
                (runner.set_input, part.inputs),
                (runner.set_output, part.outputs),
            ):
                for index, value in enumerate(values):
                    self._ports.setdefault(value, []).append((setter, index))

    def rebind(self, values: Sequence[int], buffers: Sequence[np.ndarray]) -> None:
        """Use other arrays for some values from now on."""
        for value, buffer in zip(values, buffers, strict=True):
            for set_buffer, index in self._ports.get(value, ()):
                set_buffer(index, buffer)

    def reset(self) -> None:
        """Set what lives on from run to run back to its start."""
        for array, initial in self._state:
            array.reshape(-1).view(np.uint8)[...] = np.frombuffer(initial, np.uint8)

    def run(self, timeout_ns: int = 0) -> None:
        """Run every partition in order.

        Raises:
            DeadlineError: The timeout passed.
            CancelledError: `cancel` was called.
        """
        self._cancelled = False
        deadline = deadline_after(timeout_ns)
        for part, runner in zip(self._partitions, self._runners, strict=True):
            if self._cancelled:
                raise CancelledError("the run was cancelled")
            runner.run(time_left(deadline))
            for value in part.dynamic:
                self.rebind([value], [runner.output(part.outputs.index(value))])

    def value(self, number: int) -> np.ndarray:
        """The array of a value that the last run computed."""
        for part, runner in zip(self._partitions, self._runners, strict=True):
            if number in part.outputs:
                return runner.output(part.outputs.index(number))
        raise KeyError(number)

    def cancel(self) -> None:
        """Stop a run in progress in another thread."""
        self._cancelled = True
        for runner in self._runners:
            runner.cancel()

    def fastest(self) -> Callable[..., None]:
        """The cheapest way to run again and again without a timeout."""
        alone = len(self._runners) == 1 and not self._partitions[0].dynamic
        return self._runners[0].run if alone else self.run


def deadline_after(timeout_ns: int) -> int:
    """When a timeout that starts now ends, on the monotonic clock; 0 for no timeout."""
    return time.monotonic_ns() + timeout_ns if timeout_ns else 0


def time_left(deadline: int) -> int:
    """Nanoseconds until a deadline, 0 where there is none.

    Raises:
        DeadlineError: It has passed.
    """
    if not deadline:
        return 0
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise DeadlineError("the run passed its timeout", fix="allow more time or more threads")
    return left
