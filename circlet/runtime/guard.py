"""Runners of backends that are not Circlet's own: whatever they do, a run ends with a coded error.

What they raise is told with the backend's name and its operators; results are looked at; and where
a run has a timeout, it is kept even if the backend does not come back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from circlet.deadline import NANOSECONDS
from circlet.errors import CancelledError, CircletError, DeadlineError
from circlet.runtime.workers import Workers

if TYPE_CHECKING:
    from circlet.artifact.values import Value
    from circlet.backends.base import Observation, Observer, Runner
    from circlet.runtime.executor import LoadedPartition

_GRACE_S = 0.1  # for what keeps its timeout itself, or stops when it is cancelled
_LOOK_S = 0.05  # how often a wait asks whether the run was cancelled


class Guarded:
    """A runner that fails with coded errors only, and by its timeout.

    Attributes:
        is_lost: Whether a run did not come back; this runner runs no more.
    """

    def __init__(
        self, part: LoadedPartition, runner: Runner, outputs: Sequence[np.ndarray]
    ) -> None:
        self._part, self._runner = part, runner
        self._outputs = list(outputs)
        self._workers: Workers | None = None
        self._observed: BaseException | None = None
        self._is_cancelled = False
        self.is_lost = False

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the partition's outputs.

        Raises:
            BackendError: The backend failed, or gave what is no result of the partition.
            DeadlineError: The timeout passed; the backend may still be at work, to no end.
        """
        if self.is_lost:
            raise self._gone()
        self._is_cancelled = False
        if timeout_ns:
            self._run_in_time(timeout_ns)
        else:
            self._run(0)

    def _run(self, timeout_ns: int) -> None:
        self._told("while it ran", partial(self._runner.run, timeout_ns))
        for index, value in enumerate(self._part.made):
            self._check(index, value)

    def _told(self, doing: str, act: Callable[[], None]) -> None:
        """Act; BackendError in the place of what a backend raises, others as they are."""
        try:
            act()
        except Exception as error:
            if error is self._observed:
                self._observed = None
                raise
            raise self._part.failure(doing, error) from error

    def _check(self, index: int, value: Value) -> None:
        found, bound = self._runner.output(index), self._outputs[index]
        if found is bound:
            return
        expected = np.dtype(object) if value.is_text else bound.dtype
        sizes = zip(found.shape, value.shape, strict=False)
        fits = len(found.shape) == len(value.shape) and all(s in (f, -1) for f, s in sizes)
        if not fits or found.dtype != expected:
            why = f"{value.name} is {found.dtype}{list(found.shape)}, planned was {expected}"
            error = ValueError(f"{why}{list(value.shape)}; -1 stands for what a run decides")
            raise self._part.failure("with a result of another shape or type", error)
        if not value.is_dynamic:  # others read what is bound
            bound[...] = found

    def _run_in_time(self, timeout_ns: int) -> None:
        """Run in another thread, and leave that alone where it does not come back."""
        self._workers = self._workers or Workers(1)
        ended, raised = threading.Event(), list[BaseException]()

        def job() -> None:
            try:
                self._run(timeout_ns)
            except BaseException as error:
                raised.append(error)
            finally:
                ended.set()

        self._workers.submit(job)
        try:
            came_back = self._await(ended, timeout_ns / NANOSECONDS)
        except BaseException:  # a signal's, such as that of Ctrl-C
            self._stop(ended)
            raise
        if not came_back:
            came_back = self._stop(ended)
        if not came_back:
            raise CancelledError("the run was cancelled") if self._is_cancelled else self._late()
        if raised:
            raise raised[0]

    def _await(self, ended: threading.Event, seconds: float) -> bool:
        """Whether a run ended in time; False at once where it was cancelled."""
        while seconds > 0 and not self._is_cancelled:
            if ended.wait(min(seconds, _LOOK_S)):
                return True
            seconds -= _LOOK_S
        return ended.is_set()

    def _stop(self, ended: threading.Event) -> bool:
        """Whether a run ends when it is asked to; if not, its runner is lost."""
        threading.Thread(target=self._runner.cancel, daemon=True).start()  # that may hang as well
        self.is_lost = not ended.wait(_GRACE_S)
        if self.is_lost:
            threading.Thread(target=self._part_from_buffers, daemon=True).start()
        return not self.is_lost

    def _part_from_buffers(self) -> None:
        """Let a runner that is lost write, should it ever come back, where nobody reads."""
        for index, buffer in enumerate(self._outputs):
            with suppress(Exception):
                self._runner.set_output(index, np.empty_like(buffer))

    def _late(self) -> DeadlineError:
        error = DeadlineError.passed()
        why = "it did not come back, also when it was cancelled; it is not waited for any more"
        made = DeadlineError(error.what, where=self._part.where, why=why, fix=error.fix)
        made.backend = self._part.backend
        return made

    def _gone(self) -> CircletError:
        why = TimeoutError("it did not come back from an earlier run")
        return self._part.failure("before this run", why)

    def output(self, index: int) -> np.ndarray:
        """The array that output `index` is in after a run."""
        return self._runner.output(index)

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        self._told("when it was given an input", partial(self._runner.set_input, index, buffer))

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        self._told("when it was given an output", partial(self._runner.set_output, index, buffer))
        self._outputs[index] = buffer

    def cancel(self) -> None:
        """Stop a run in progress."""
        self._is_cancelled = True
        self._runner.cancel()

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that the runner shows, and raise what it raises."""
        if observer is None:
            self._runner.observe(None)
            return
        told = observer

        def tell(observation: Observation) -> None:
            try:
                told(observation)
            except Exception as error:
                self._observed = error
                raise

        self._runner.observe(tell)
