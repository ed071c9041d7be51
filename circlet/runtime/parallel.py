"""Runs partitions that do not wait for each other side by side, on threads of the session."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.registry import find_backend
from circlet.deadline import deadline_after, time_left
from circlet.errors import CancelledError
from circlet.runtime.executor import Execution, LoadedPartition
from circlet.runtime.schedule import Schedule, schedule
from circlet.runtime.workers import Workers

if TYPE_CHECKING:
    from circlet.backends.base import Observer

_LOOK_S = 0.01  # how often partitions that go on after an error are asked to stop again


class DataflowExecution(Execution):
    """A plan whose partitions run in turn, those first that most work waits for."""

    def _turns(self) -> Sequence[int]:
        return _schedule_of(self).order()


class ParallelExecution(Execution):
    """A plan whose partitions run as soon as what they read is there.

    Where an observer is told of operators, partitions run in turn.
    """

    def __init__(
        self,
        partitions: Sequence[LoadedPartition],
        buffers: Sequence[np.ndarray],
        threads: int,
        state: Sequence[tuple[np.ndarray, bytes]] = (),
        kept: Sequence[int] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._width = width(partitions, threads)
        self._workers = workers
        self._is_observed = self._is_unsettled = False
        super().__init__(partitions, buffers, threads, state, kept)
        self._schedule = _schedule_of(self)

    def _shares(self, threads: int) -> Sequence[int]:
        return schedule(self._partitions, self._living).shares(threads, self._width)

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that runs from now on, or nobody any more."""
        super().observe(observer)
        self._is_observed = observer is not None

    def run(self, timeout_ns: int = 0) -> None:
        """Run every partition as soon as those are done that it waits for.

        Raises:
            DeadlineError: The timeout passed.
            CancelledError: `cancel` was called.
            CircletError: The first error of a partition; others are cancelled then.
        """
        if self._is_observed or self._width == 1 or self._workers is None:
            super().run(timeout_ns)
            return
        self._cancelled = False
        self._is_unsettled = True
        run = _Run(self, self._schedule, self._workers, self._width, timeout_ns)
        run.run()
        self._is_unsettled = False
        if run.error is not None:
            raise run.error

    @property
    def is_lost(self) -> bool:
        """Whether a partition of an earlier run may be at work still."""
        return self._is_unsettled or super().is_lost

    def run_one(self, number: int, deadline: int) -> None:
        """Run one partition, whose inputs are there."""
        if self._cancelled:
            raise CancelledError("the run was cancelled")
        part, runner = self._partitions[number], self._runners[number]
        runner.run(time_left(deadline))
        for value in part.dynamic:
            self.rebind([value], [runner.output(part.outputs.index(value))])

    def stop_one(self, number: int) -> None:
        """Ask one partition that runs to stop."""
        self._runners[number].cancel()


def _schedule_of(execution: Execution) -> Schedule:
    return schedule(execution._partitions, execution._living, execution._further)


def width(partitions: Sequence[LoadedPartition], threads: int) -> int:
    """How many partitions run at a time: one a thread, and one on each device beside the cores."""
    names = {part.backend for part in partitions if part.backend}
    devices = sum(find_backend(name).describe().memory[0] != "host" for name in names)
    return min(threads + devices, len(partitions))


class _Run:
    """One run: what is ready, what runs, and how it ends.

    Attributes:
        error: The first that a partition raised.
    """

    def __init__(
        self,
        execution: ParallelExecution,
        order: Schedule,
        workers: Workers,
        most: int,
        timeout_ns: int,
    ) -> None:
        self._execution, self._order, self._workers = execution, order, workers
        self._helpers_left = most - 1
        self._deadline = deadline_after(timeout_ns)
        self._changed = threading.Condition()
        self._waits = list(order.waits)
        self._ready = [(-order.ranks[n], n) for n, count in enumerate(self._waits) if not count]
        heapify(self._ready)
        self._running: set[int | None] = set()
        self._left = len(self._waits)
        self.error: BaseException | None = None
        self._own: int | None = None  # what the calling thread runs

    def run(self) -> None:
        """Run all; the calling thread takes part. It returns when nothing runs any more."""
        try:
            with self._changed:
                self._call_helpers()
            self._take_part()
        except BaseException as error:  # of a signal, while this thread runs nothing
            self._running.discard(self._own)
            self._fail(error)
        self._await_end()

    def _take_part(self) -> None:
        """Run what is ready until nothing is left, and wait where nothing is."""
        while True:
            with self._changed:
                while not self._ready and self._left and self.error is None:
                    self._changed.wait()
                number = self._own = self._take()
            if number is None:
                return
            self._do(number)

    def _help(self) -> None:
        """Run what is ready, in a thread of the session, until nothing is."""
        while True:
            with self._changed:
                number = self._take()
                if number is None:
                    self._helpers_left += 1
                    return
            self._do(number)

    def _take(self) -> int | None:
        """The ready partition of the highest rank, which runs from now on."""
        if not self._ready or self.error is not None:
            return None
        number = heappop(self._ready)[1]
        self._running.add(number)
        return number

    def _do(self, number: int) -> None:
        try:
            self._execution.run_one(number, self._deadline)
        except BaseException as error:
            with self._changed:
                self._running.discard(number)
            self._fail(error)
            return
        with self._changed:
            self._running.discard(number)
            self._left -= 1
            for reader in self._order.readers[number]:
                self._waits[reader] -= 1
                if not self._waits[reader]:
                    heappush(self._ready, (-self._order.ranks[reader], reader))
            self._call_helpers()
            self._changed.notify_all()

    def _call_helpers(self) -> None:
        """Have a thread come for each ready partition but the one that this thread takes."""
        for _ in range(min(self._helpers_left, len(self._ready) - 1)):
            self._helpers_left -= 1
            self._workers.submit(self._help)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self.error is None:
                self.error = error
            self._changed.notify_all()

    def _await_end(self) -> None:
        """Wait until nothing runs any more, and ask it to stop as long as something should not."""
        with self._changed:
            while self._running:
                for number in self._running:
                    self._execution.stop_one(number)  # type: ignore[arg-type]
                self._changed.wait(_LOOK_S)
