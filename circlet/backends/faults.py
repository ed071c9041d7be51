"""Errors of backends while a network is prepared, told with their names and operators.

`CircletError.backend` says which backend failed, so that another may take over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from circlet.backends.base import CompileJob, PartitionCompiler, Unavailable
from circlet.backends.registry import find_backend
from circlet.errors import BackendError, CircletError, CompileError, CompilerMissingError
from circlet.ir import Op
from circlet.placement.interface import Candidate, Reason, Supported
from circlet.plan.partition import Partition

_OF_BACKENDS = (BackendError, CompileError, CompilerMissingError)


@contextmanager
def faults_of(backend: str, doing: str, ops: Sequence[str] = ()) -> Iterator[None]:
    """Tell what a backend raises by its name; other errors of Circlet stay as they are.

    Raises:
        BackendError: The backend raised what is no error of Circlet, or one of engines.
        CircletError: As the backend.
    """
    try:
        yield
    except BackendError as error:
        if error.backend:
            raise
        raise BackendError.failed(backend, doing, ops, error) from error
    except CircletError as error:
        if isinstance(error, _OF_BACKENDS):
            error.backend = error.backend or backend
        raise
    except MemoryError:
        raise
    except Exception as error:
        raise BackendError.failed(backend, doing, ops, error) from error


def started_compiler(name: str, job: CompileJob) -> PartitionCompiler:
    """The backend of a name at work; one that failed before takes nothing, and says why.

    Raises:
        InputError: There is no such backend, or its engine is not installed.
        CircletError: As `Backend.compiler`.
    """
    why = dict(job.options.failed).get(name)
    if why is not None:
        return Unavailable(name, f"it failed: {why}")
    try:
        backend = find_backend(name)
    except CircletError as error:
        error.backend = name
        raise
    with faults_of(name, "before it compiled anything"):
        return backend.compiler(job)


@dataclass(frozen=True)
class Asked:
    """A backend as placement asks it."""

    backend: Candidate

    @property
    def name(self) -> str:
        """That of the backend."""
        return self.backend.name

    def supports(self, op: Op) -> Supported | Reason:
        """What the backend says; raises as `faults_of`."""
        with faults_of(self.name, "when it was asked for an operator", [op.name]):
            return self.backend.supports(op)


def names_of(parts: Sequence[Partition]) -> list[str]:
    """The names of the operators of partitions."""
    return [op.name for part in parts for op in part.ops]
