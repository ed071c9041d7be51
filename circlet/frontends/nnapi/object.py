"""What all objects have: a phase, a lock, and calls that the phase allows or refuses."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import contextmanager

from circlet.errors import (
    CircletError,
    CompilerMissingError,
    DeadlineError,
    FormatError,
    GraphError,
    InputError,
    LimitError,
    NNAPIError,
    PlacementError,
    TargetError,
    UnsupportedOpsError,
)
from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.states import Phase, Table

_RESULTS: tuple[tuple[tuple[type[CircletError], ...], ResultCode], ...] = (
    ((DeadlineError,), ResultCode.MISSED_DEADLINE_TRANSIENT),
    ((LimitError,), ResultCode.RESOURCE_EXHAUSTED_PERSISTENT),
    ((CompilerMissingError, TargetError), ResultCode.UNAVAILABLE_DEVICE),
    (
        (InputError, FormatError, GraphError, PlacementError, UnsupportedOpsError),
        ResultCode.BAD_DATA,
    ),
)


class NNAPIObject:
    """An object that several threads may use; `phase` says where in its life it is."""

    table: Table

    def __init__(self, phase: Phase) -> None:
        self._lock = allocate_lock()
        self._phase = phase

    @property
    def phase(self) -> Phase:
        """Where in its life the object is."""
        return self._phase

    def _enter(self, call: str) -> None:
        """See that the phase allows a call; the lock is held, or the phase does not go back.

        Raises:
            NNAPIError: BAD_STATE, or DEAD_OBJECT of what was freed.
        """
        result = self.table[call][self._phase]
        if result:
            kind = type(self).__name__.lower()
            why = f"the {kind} is {self._phase.value}"
            raise refused("a call comes at the wrong time", result, where=call, why=why)

    def free(self) -> None:
        """Let go of everything; the object refuses every call from now on."""
        with self._lock:
            self._phase = Phase.FREED


def present(thing: object, kind: type, call: str) -> None:
    """See that an argument is an object of a kind.

    Raises:
        NNAPIError: UNEXPECTED_NULL for None, BAD_DATA for anything else.
    """
    if isinstance(thing, kind):
        return
    result = ResultCode.UNEXPECTED_NULL if thing is None else ResultCode.BAD_DATA
    why = f"it is of type {type(thing).__name__}"
    raise refused(f"there is no {kind.__name__.lower()}", result, where=call, why=why)


def refused(
    what: str, result: ResultCode = ResultCode.BAD_DATA, *, where: str = "", why: str = ""
) -> NNAPIError:
    """The error of a call that ends in a result code."""
    return NNAPIError(f"{result.name}: {what}", where=where, why=why, result=result)


@contextmanager
def coded(call: str) -> Iterator[None]:
    """Have whatever is raised in the block be an `NNAPIError` with a result code."""
    try:
        yield
    except NNAPIError:
        raise
    except CircletError as error:
        raise result_error(error, call) from error
    except MemoryError as error:
        result = ResultCode.OUT_OF_MEMORY
        raise refused("there is not enough memory", result, where=call) from error


def result_error(error: CircletError, call: str) -> NNAPIError:
    """The error that a coded error is to callers of the API."""
    result = next((code for kinds, code in _RESULTS if isinstance(error, kinds)), None)
    result = result or ResultCode.OP_FAILED
    what = f"{result.name}: [{error.code}] {error.what}"
    where = f"{call}: {error.where}" if error.where else call
    return NNAPIError(what, where=where, why=error.reasons, fix=error.fix, result=result)
