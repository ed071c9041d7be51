"""What a session has loaded of its network: calls of it, and other backends where one fails."""

from __future__ import annotations

from _thread import allocate_lock
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np

from circlet.artifact.values import unique_names
from circlet.backends.outgrown import OutgrownError
from circlet.errors import BackendError, CancelledError, CircletError
from circlet.forking import renew_in_children
from circlet.options import DEFAULT_EXECUTOR, Options
from circlet.runtime.artifacts import ArtifactSource
from circlet.runtime.calls import Call, Numbers
from circlet.runtime.executor import Execution, execution_of
from circlet.runtime.loading import Opened
from circlet.runtime.opening import open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from circlet.artifact.values import Value
    from circlet.runtime.opening import Source
    from circlet.runtime.resizing import Resizer
    from circlet.runtime.session import Session
    from circlet.runtime.workers import Workers

_MOST_SIZES = 16
_MORE_ROOM, _MOST_ROOM = 4, 1 << 30  # turns of loops: how many times as many, and how many at most
_MOST_HELPERS = 128  # as many as two runs take that use all the threads that they may
_Shapes = tuple[tuple[int, ...], ...]


class LoadedNetwork:
    """A loaded plan and its calls; any number of threads may use one.

    Args:
        source: What it was opened with.
        options: What was asked for.
        opened: What was loaded.
        threads: Threads of a run.
        resizer: Plans it for other sizes; made when it is first needed where it is None.

    Attributes:
        opened, options: Those of now: others where a backend failed and others took over.
        idle: Calls that no thread uses.
        turn: Held while a network with state runs.
        grown: A session that was compiled for the first large sizes of inputs that the file
            leaves open, and where these are: numbers of inputs and axes.
        is_stateful: Whether variable tensors live on from run to run.
    """

    def __init__(
        self,
        source: Source,
        options: Options,
        opened: Opened,
        threads: int,
        resizer: Resizer | None = None,
    ) -> None:
        made_for = options.executor or opened.metadata.get("executor") or DEFAULT_EXECUTOR
        self.source, self.opened = source, opened
        self.options = options._replace(executor=made_for, failed=opened.failed)
        self.is_stateful = any(value.initial is not None for value in opened.values)
        self.idle: list[Call] = []
        self._calls: list[Call] = []
        self._cancels = 0
        self._threads = threads
        self._resizer = resizer
        self._resized: dict[_Shapes, Session] = {}
        self.grown: tuple[frozenset[tuple[int, int]], Session] | None = None
        self._refusal: CircletError | None = None
        self._workers: Workers | None = None
        self.renew_after_fork()
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Open the locks, whoever held them in the process that was forked.

        A call that another thread was in the midst of is idle in no list, so that the next run
        makes a new one, whose state starts afresh.
        """
        self._lock = allocate_lock()
        self._switching = allocate_lock()
        self.turn: AbstractContextManager[object] = (
            allocate_lock() if self.is_stateful else nullcontext()
        )

    @property
    def may_compile(self) -> bool:
        """Whether code can be made for other sizes: artifacts hold what is compiled alone.

        Raises:
            CompilerMissingError: A backend compiles, and its compiler is not there.
        """
        if isinstance(self.source, ArtifactSource):
            return False
        from circlet.backends.registry import find_backend

        return any(find_backend(part.backend).toolchain() for part in self.opened.partitions)

    def values(self, numbers: Sequence[int]) -> tuple[Value, ...]:
        """The values at some positions of the plan."""
        return tuple(self.opened.values[number] for number in numbers)

    def idle_call(self, idle: list[Call]) -> Call:
        """A call that no other thread uses until it is idle again; with state always the same.

        Raises:
            BackendError: An earlier run did not come back.
        """
        try:
            return idle.pop()
        except IndexError:
            if self._refusal is not None:
                raise self._refused() from self._refusal
            opened, execution = self.new_execution()
            names = unique_names(self.values(opened.outputs))
            call = Call(execution, opened.inputs, opened.outputs, opened.values, names)
            self._calls.append(call)
            return call

    def new_execution(self) -> tuple[Opened, Execution]:
        """A plan, and an execution of it on buffers of its own."""
        opened = self.opened
        values, outputs = opened.values, opened.outputs
        callers = {*opened.inputs, *outputs}  # bound before each run
        buffers = [
            np.empty(0) if index in callers else value.empty() for index, value in enumerate(values)
        ]
        name, parts = str(self.options.executor), opened.partitions
        args = (name, parts, values, buffers, self._threads, outputs, self._helpers)
        try:
            return opened, execution_of(*args)
        except CircletError as error:
            if not error.backend or not self._take_over(error):
                raise
        return self.new_execution()

    def cancel(self) -> None:
        """Stop every call that is in progress in other threads."""
        self._cancels += 1
        for call in list(self._calls):
            call.execution.cancel()

    def is_recovered(self, error: BaseException, call: Call, idle: list[Call]) -> bool:
        """Whether another backend took over, so that the run is to be tried again.

        A call that did not come back runs no more, and neither do others of its backends.
        """
        if call.execution.is_lost:
            idle.clear()
            self._refusal = error if isinstance(error, CircletError) else None
        else:
            idle.append(call)
        if isinstance(error, OutgrownError):
            return self._make_room(call.numbers)
        if not isinstance(error, CircletError) or not error.backend:
            return False
        return self._take_over(error) and isinstance(error, BackendError)

    @property
    def may_recover(self) -> bool:
        """Whether a run that failed may be run again, otherwise."""
        return not self.is_stateful and (self.may_outgrow or bool(self.options.fallback))

    @property
    def may_outgrow(self) -> bool:
        """Whether a loop of a run may take more turns than it has room for."""
        return bool(self.opened.metadata.get("loop_room"))

    def recovered(self, error: CircletError, numbers: Numbers) -> tuple[Execution, Numbers]:
        """An execution in the place of one that failed, whose arrays had these numbers.

        Other backends run it, or loops have more room; raises where neither helps.
        """
        if isinstance(error, OutgrownError):
            is_recovered = self._make_room(numbers)
        else:
            is_recovered = bool(error.backend) and self._take_over(error)
        if not is_recovered:
            raise error
        opened, execution = self.new_execution()
        return execution, (opened.inputs, opened.outputs)

    def _take_over(self, error: CircletError) -> bool:
        """Go on with other backends than the one that failed; False where none is to take over."""
        if self.is_stateful or not self.options.fallback:
            return False
        from circlet.runtime.fallback import taken_over

        with self._switching:
            if error.backend in dict(self.options.failed):
                return True
            options = taken_over(self.options, error)
            if options is None:
                return False
            opened = open_source(self.source, options, self.opened.model)
            self.options = options._replace(failed=opened.failed)
            self.opened, self._resizer, self._refusal = opened, None, None
            self.grown = None
            self._calls, self.idle, self._resized = [], [], {}  # last: calls of what is loaded now
        return True

    def _make_room(self, numbers: Numbers) -> bool:
        """Go on with more room for turns of loops than what had arrays of these numbers."""
        if self.is_stateful:
            return False
        cancels = self._cancels
        is_made = self._with_more_room(numbers)
        if self._cancels != cancels:
            raise CancelledError("the run was cancelled")
        return is_made

    def _with_more_room(self, numbers: Numbers) -> bool:
        with self._switching:
            if numbers[0] is not self.opened.inputs:
                return True  # another thread did so
            room = min(self.options.loop_room * _MORE_ROOM, _MOST_ROOM)
            options = self.options._replace(loop_room=room)
            opened = self.resizer().opened(options)
            if opened is None or room == self.options.loop_room:
                return False
            self.options, self.opened = options, opened
            self._calls, self.idle = [], []  # last: calls of what is loaded now
        return True

    def _refused(self) -> BackendError:
        """The error of runs after one that did not come back."""
        lost = self._refusal
        why = TimeoutError("it did not come back from an earlier run")
        return BackendError.failed(lost.backend if lost else "", "before this run", (), why)

    def _helpers(self) -> Workers:
        """The threads that help runs, which are started when there is work."""
        from circlet.runtime.workers import Workers

        with self._lock:
            if self._workers is None:
                self._workers = Workers(_MOST_HELPERS)
            return self._workers

    def resizer(self) -> Resizer:
        """What sessions for other sizes come from; those that came from one session share it."""
        from circlet.runtime.resizing import Resizer

        with self._lock:
            if self._resizer is None:
                self._resizer = Resizer(self.source, self.options, self.opened)
            return self._resizer

    def taken(self, shapes: _Shapes) -> Session | None:
        """A session for other sizes that was kept, if any; it is to be kept again."""
        with self._lock:
            return self._resized.pop(shapes, None)

    def keep(self, shapes: _Shapes, session: Session) -> None:
        """Keep a session for other sizes: those of late, and no more than a few."""
        with self._lock:
            self._resized[shapes] = session
            while len(self._resized) > _MOST_SIZES:
                del self._resized[next(iter(self._resized))]
