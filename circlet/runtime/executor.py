"""Runs a plan's partitions in order, once per call, on buffers that are bound ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.artifact.values import Value
from circlet.deadline import deadline_after, time_left
from circlet.errors import BackendError, CancelledError, CircletError, DeadlineError
from circlet.struct import Struct

if TYPE_CHECKING:
    from circlet.backends.base import Executable, Observer, Runner, Setter
    from circlet.runtime.transfers import Carried, CopyStep
    from circlet.runtime.workers import Workers

_MOST_COPIED_BYTES = 32768
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


Numbers = tuple[Sequence[int], Sequence[int]]
Recover = Callable[[CircletError], tuple[Execution, Numbers]]


class BoundCall:
    """A session bound to fixed buffers: calling it runs the network on them, in place.

    Attributes:
        inputs, outputs: The arrays that every call reads and writes, in the session's order.
    """

    def __init__(
        self,
        execution: Execution,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        limit_ns: int = 0,
        numbers: Numbers = ((), ()),
        recover: Recover | None = None,
    ) -> None:
        self._numbers, self._limit_ns = numbers, limit_ns
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._execution = execution
        self.run = partial(execution.run, limit_ns) if limit_ns else execution.fastest()
        if recover is not None:
            self._recover = recover
            self.run = self._run_or_recover

    def _run_or_recover(self, timeout_ns: int = 0) -> None:
        """Run, and once more where a backend failed and others take over."""
        limit_ns = timeout_ns or self._limit_ns
        try:
            self._execution.run(limit_ns)
        except CircletError as error:
            self._execution, self._numbers = self._recover(error)
            self.rebind(self.inputs, self.outputs)
            if isinstance(error, DeadlineError):  # the time is over
                raise
            self._execution.run(limit_ns)

    def __call__(self) -> None:
        """Run once. `run` is the same without this method's own cost."""
        self.run()

    def rebind(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Read and write other arrays from now on; they must fit as those that were bound do."""
        for values, arrays in zip(self._numbers, (inputs, outputs), strict=True):
            self._execution.rebind(values, arrays)
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def reset(self) -> None:
        """Set this call's variable tensors back to their initial values, between two calls."""
        self._execution.reset()

    def cancel(self) -> None:
        """Stop a call in progress in another thread."""
        self._execution.cancel()


class Call:
    """An execution that takes arrays and gives new ones, again and again.

    Small arrays are copied to and from buffers that stay bound, which is cheaper than to bind the
    caller's; large ones are used in place.

    Args:
        execution: What to run; no other call uses it.
        inputs, outputs: Numbers of the values in the plan.
        values: All values of the plan.
        names: Names of the outputs.
    """

    def __init__(
        self,
        execution: Execution,
        inputs: Sequence[int],
        outputs: Sequence[int],
        values: Sequence[Value],
        names: Sequence[str],
    ) -> None:
        self.execution = execution
        own = {n: values[n].empty() for n in (*inputs, *outputs) if is_copied(values[n])}
        execution.rebind(list(own), list(own.values()))
        self._run = execution.fastest()
        self._inputs = [(number, own.get(number)) for number in inputs]
        self._outputs = [
            (name, number, values[number], own.get(number))
            for name, number in zip(names, outputs, strict=True)
        ]
        self._all_copied = all(row[3] is not None for row in self._outputs)

    def __call__(self, arrays: Sequence[np.ndarray], limit_ns: int) -> dict[str, np.ndarray]:
        """Outputs by name for arrays that fit the inputs."""
        for (number, buffer), array in zip(self._inputs, arrays, strict=True):
            if buffer is None:
                self.execution.rebind((number,), (array,))
            else:
                buffer[...] = array
        if self._all_copied:
            self._run(limit_ns)
            return {name: buffer.copy() for name, _, _, buffer in self._outputs}  # type: ignore[union-attr]
        return self._run_in_place(limit_ns)

    def _run_in_place(self, limit_ns: int) -> dict[str, np.ndarray]:
        found = {}
        for name, number, value, buffer in self._outputs:
            if buffer is None:
                found[name] = value.empty()
                self.execution.rebind((number,), (found[name],))
        self._run(limit_ns)
        for name, number, value, buffer in self._outputs:
            if buffer is not None:
                found[name] = buffer.copy()
            elif value.is_dynamic:
                found[name] = self.execution.value(number)
        return {name: found[name] for name, _, _, _ in self._outputs}


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


def is_copied(value: Value) -> bool:
    """Whether calls copy the arrays of a value rather than bind them."""
    return not value.is_text and not value.is_dynamic and value.bytes <= _MOST_COPIED_BYTES
