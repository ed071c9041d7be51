"""Runs a plan's partitions in order, once per call, on buffers that are bound ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.artifact.values import Value
from circlet.deadline import deadline_after, time_left
from circlet.errors import BackendError, CancelledError, CircletError
from circlet.struct import Struct

if TYPE_CHECKING:
    from circlet.backends.base import Executable, Observer, Runner, Setter
    from circlet.runtime.transfers import Carried, CopyStep
    from circlet.runtime.workers import Workers

_NO_ENTRY: Mapping[str, Any] = {}


class LoadedPartition(Struct):
    """A partition and the values (by position in the plan) that it reads and writes.

    Attributes:
        dynamic: The values written whose shapes only a run decides.
        made: What is known of each of the outputs.
        entry: What the artifact's metadata says of it.
    """

    code: Executable
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dynamic: tuple[int, ...] = ()
    made: tuple[Value, ...] = ()
    entry: Mapping[str, Any] = _NO_ENTRY

    @property
    def backend(self) -> str:
        """The name of its backend."""
        return str(self.entry.get("backend", ""))

    @property
    def ops(self) -> list[str]:
        """The names of its operators."""
        return [str(name) for _, name in self.entry.get("ops", ())]

    @property
    def where(self) -> str:
        """Its place in errors."""
        return BackendError.failed(self.backend, "", self.ops, ValueError()).where

    def failure(self, doing: str, error: BaseException) -> CircletError:
        """What to raise where its backend raised an error."""
        is_own = isinstance(error, CircletError) and not isinstance(error, BackendError)
        if is_own or (isinstance(error, BackendError) and error.backend):
            return error  # type: ignore[return-value]
        return BackendError.failed(self.backend, doing, self.ops, error)

    def bound(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> tuple[Runner, Carried | None]:
        """A runner between these arrays; and what copies for it, if its memory is its own.

        Raises:
            CircletError: The backend cannot be started.
        """
        try:
            runner = self.code.bind(inputs, outputs, threads)
        except Exception as error:
            failure = self.failure("before it ran", error)
            raise failure from error if failure is not error else None
        if getattr(runner, "keeps_timeouts", False):  # Circlet's own: nothing is to be guarded
            return runner, None
        from circlet.runtime.guard import Guarded
        from circlet.runtime.transfers import carried

        copier = carried(runner)
        return Guarded(self, copier or runner, outputs), copier


class Execution:
    """A plan bound to one set of buffers; not to be run by two threads at once.

    Args:
        partitions: The plan.
        buffers: One array for each value of the plan.
        threads: Threads of a run.
        state: The arrays among the buffers that keep their values from run to run, and the bytes
            that they start as.
        kept: Values that are read after a run; all where it is None.

    Attributes:
        copies: What is copied to and from memory of backends' own in each run, in order.
    """

    copies: Sequence[CopyStep] = ()

    def __init__(
        self,
        partitions: Sequence[LoadedPartition],
        buffers: Sequence[np.ndarray],
        threads: int,
        state: Sequence[tuple[np.ndarray, bytes]] = (),
        kept: Sequence[int] | None = None,
    ) -> None:
        self._partitions = partitions
        self._cancelled = False
        self._state = state
        lasting = {id(array) for array, _ in state}
        self._living = {n for n, array in enumerate(buffers) if id(array) in lasting}
        self._further: Sequence[tuple[int, int]] = ()
        self.reset()
        bound = [
            part.bound([buffers[i] for i in part.inputs], [buffers[i] for i in part.outputs], share)
            for part, share in zip(partitions, self._shares(threads), strict=True)
        ]
        self._runners: list[Runner] = [runner for runner, _ in bound]
        copiers = [copier for _, copier in bound]
        if any(copiers):
            self._route(copiers, kept)
        self._ports: dict[int, list[tuple[Setter, int]]] = {}
        for part, runner in zip(partitions, self._runners, strict=True):
            for setter, values in (
                (runner.set_input, part.inputs),
                (runner.set_output, part.outputs),
            ):
                for index, value in enumerate(values):
                    self._ports.setdefault(value, []).append((setter, index))

        self._rows = [(self._partitions[n], self._runners[n]) for n in self._turns()]

    def _shares(self, threads: int) -> Sequence[int]:
        """The threads of each partition."""
        return (threads,) * len(self._partitions)

    def _turns(self) -> Sequence[int]:
        """The partitions in the order in which they run."""
        return range(len(self._partitions))

    def _route(self, copiers: Sequence[Carried | None], kept: Sequence[int] | None) -> None:
        """Settle what is copied to and from memory of backends' own."""
        from circlet.runtime.transfers import Routes

        routes = Routes(self._partitions, kept, self._living)
        routes.route(copiers)
        self._further = routes.after
        found = [copier for copier in copiers if copier is not None]
        self.copies = [step for own in found for step in (*own.uploads, *own.downloads)]

    @property
    def is_lost(self) -> bool:
        """Whether a partition did not come back from a run: this execution runs no more."""
        return any(getattr(runner, "is_lost", False) for runner in self._runners)

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
        for part, runner in self._rows:
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

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that runs from now on, or nobody any more.

        Raises:
            BackendError: A backend cannot look into its partitions.
        """
        for runner in self._runners:
            runner.observe(observer)

    def fastest(self) -> Callable[..., None]:
        """The cheapest way to run again and again without a timeout."""
        alone = len(self._runners) == 1 and not self._partitions[0].dynamic
        return self._runners[0].run if alone else self.run


def living(
    values: Sequence[Value], buffers: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, bytes]]:
    """The arrays that keep their values from run to run, and the bytes that they start as."""
    pairs = zip(buffers, values, strict=True)
    return [(array, value.initial) for array, value in pairs if value.initial is not None]


def execution_of(
    executor: str,
    partitions: Sequence[LoadedPartition],
    values: Sequence[Value],
    buffers: Sequence[np.ndarray],
    threads: int,
    kept: Sequence[int],
    workers: Callable[[], Workers],
) -> Execution:
    """A plan bound to buffers, one for each of its values, to be run by an executor of a name.

    Args:
        kept: Values that are read after a run.
        workers: Gives the threads that help; not called where none may.
    """
    state = living(values, buffers)
    if executor == "linear" or len(partitions) == 1:
        return Execution(partitions, buffers, threads, state, kept)
    from circlet.runtime.parallel import DataflowExecution, ParallelExecution, width

    if executor == "dataflow":
        return DataflowExecution(partitions, buffers, threads, state, kept)
    helpers = workers() if width(partitions, threads) > 1 else None
    return ParallelExecution(partitions, buffers, threads, state, kept, helpers)
