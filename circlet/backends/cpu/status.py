"""What the runtime library answers, and the errors that it means."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from circlet.backends.outgrown import OutgrownError
from circlet.errors import (
    ArtifactError,
    BackendError,
    CancelledError,
    CircletError,
    DeadlineError,
    InputError,
    LimitError,
    TargetError,
)


class Status(IntEnum):
    """What the runtime library answers; `enum circlet_status` of the ABI header."""

    OK = 0
    BAD_PLAN = 1
    NO_MEMORY = 2
    TIMEOUT = 3
    CANCELLED = 4
    BUSY = 5
    BAD_PORT = 6
    TOO_MANY_TURNS = 7
    NO_TILES = 8
    INTERRUPTED = 9
    TOO_MUCH_WORK = 10
    BAD_OPERAND = 11
    OUTGROWN = 12


_STOPPED = {
    Status.CANCELLED: "the run was cancelled",
    Status.INTERRUPTED: "the run was interrupted",
}


def refused_operand(where: str = "") -> InputError:
    """The error of BAD_OPERAND; `where` is the operator that refused what it was given."""
    return InputError(
        "an operand holds what the operation does not allow",
        where=where,
        why="its native code found boxes, regions or indices that break the operator's rules, or "
        "a branch was taken that its operands' sizes do not fit",
        fix='the backend "reference" says which rule of the operator it is',
    )


_PLAIN: dict[Status, Callable[[], CircletError]] = {
    Status.BAD_OPERAND: refused_operand,
    Status.OUTGROWN: OutgrownError.of_turns,
    Status.TIMEOUT: DeadlineError.passed,
}


def error_of(status: Status) -> CircletError:
    """The error of a status other than OK."""
    if status in _PLAIN:
        return _PLAIN[status]()
    if status in _STOPPED:
        return CancelledError(_STOPPED[status])
    if status is Status.BUSY:
        return BackendError(
            "a binding is already running",
            why="one binding does one run at a time",
            fix="bind the session once per thread",
        )
    if status is Status.BAD_PORT:
        return InputError("there is no such input or output, or one has no buffer yet")
    if status is Status.TOO_MANY_TURNS:
        return LimitError(
            "a loop of the network did not end",
            why="it passed the number of turns that circlet.limits allows in one run",
        )
    if status is Status.TOO_MUCH_WORK:
        return LimitError(
            "the network has more work to do than allowed",
            why="its loops took a run past the limit",
            fix="raise `run_work` of circlet.limits.Limits if this is meant",
        )
    if status is Status.NO_TILES:
        return TargetError(
            "the system does not grant the AMX tiles that this code needs",
            why="Linux grants them from version 5.16 on, where nothing forbids the system call",
            fix="compile for a target without amx_int8, such as x86_64_v4+avx512vnni",
        )
    if status is Status.NO_MEMORY:
        return LimitError("there is not enough memory for the arena of the network")
    return ArtifactError(
        "a compiled plan is not valid",
        why="its tables do not fit each other or the code",
        fix="compile the model again",
    )
