"""Runs a plan's partitions in order, once per call, on buffers that are bound ahead of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from circlet.errors import CancelledError, DeadlineError

NANOSECONDS = 1_000_000_000


class Runner(Protocol):
    """One partition on bound buffers."""

    def run(self, timeout_ns: int) -> None:
        """Compute the partition's outputs; 0 means no timeout."""
        ...

    def cancel(self) -> None:
        """Stop a run in progress at its next step."""
        ...


class BoundPartition(Protocol):
    """A loaded partition that can be bound to buffers."""

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """A runner that reads and writes these arrays."""
        ...


@dataclass(frozen=True)
class LoadedPartition:
    """A partition and the values (by position in the plan) that it reads and writes."""

    code: BoundPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Execution:
    """A plan bound to one set of buffers; not to be run by two threads at once."""

    def __init__(
        self,
        partitions: Sequence[LoadedPartition],
        buffers: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        self.buffers = list(buffers)
        self._cancelled = False
        self._runners = [
            part.code.bind(
                [buffers[i] for i in part.inputs], [buffers[i] for i in part.outputs], threads
            )
            for part in partitions
        ]

    def run(self, timeout_ns: int = 0) -> None:
        """Run every partition in order.

        Raises:
            DeadlineError: The timeout passed.
            CancelledError: `cancel` was called.
        """
        self._cancelled = False
        deadline = time.monotonic_ns() + timeout_ns if timeout_ns else 0
        for runner in self._runners:
            if self._cancelled:
                raise CancelledError("the run was cancelled")
            runner.run(_left(deadline))

    def cancel(self) -> None:
        """Stop a run in progress in another thread."""
        self._cancelled = True
        for runner in self._runners:
            runner.cancel()

    def callable(self) -> Callable[[], None]:
        """The cheapest way to run again and again without a timeout."""
        if len(self._runners) == 1 and hasattr(self._runners[0], "call"):
            call: Callable[[], None] = self._runners[0].call
            return call
        return self.run


def _left(deadline: int) -> int:
    if not deadline:
        return 0
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise DeadlineError("the run passed its timeout")
    return left
