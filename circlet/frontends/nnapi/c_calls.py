"""Functions with the arguments and results of C: a table of them, and how they end."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from circlet.errors import NNAPIError
from circlet.frontends.nnapi.burst import Burst
from circlet.frontends.nnapi.c_types import Address, Handle, Handles, store
from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.event import Event
from circlet.frontends.nnapi.execution import Execution
from circlet.frontends.nnapi.memory import Memory
from circlet.frontends.nnapi.model import Model
from circlet.frontends.nnapi.object import NNAPIObject, refused

Given = ParamSpec("Given")
FUNCTIONS: dict[str, Callable[..., int | None]] = {}
"""Every function by its name in C; those that free something give None, others a result code."""

HANDLES = Handles()
_PREFIX = "ANeuralNetworks"
_errors = threading.local()


def last_error() -> NNAPIError | None:
    """Why the last function that this thread called was refused; None where it was not."""
    return getattr(_errors, "last", None)


def function(
    name: str,
) -> Callable[[Callable[Concatenate[str, Given], None]], Callable[Given, int]]:
    """Have a function of the whole name and C's arguments give a result code, in the table."""

    def add(body: Callable[Concatenate[str, Given], None]) -> Callable[Given, int]:
        whole = _PREFIX + name

        @wraps(body)
        def call(*given: Given.args, **named: Given.kwargs) -> int:
            _errors.last = None
            try:
                body(whole, *given, **named)
            except Exception as error:  # C cannot catch it
                _errors.last = last = _as_result(error, whole)
                return int(last.result)
            return int(ResultCode.NO_ERROR)

        FUNCTIONS[whole] = call
        return call

    return add


def frees(name: str, kind: type[NNAPIObject]) -> None:
    """Add the function that frees objects of a kind; other handles mean nothing to it."""

    def free(handle: Handle) -> None:
        found = HANDLES.drop(kind, handle)
        if found is not None:
            found.free()

    FUNCTIONS[_PREFIX + name] = free


def give(address: Address, made: Model | Compilation | Execution | Event | Burst | Memory) -> None:
    """Write the handle of a new object where a pointer says."""
    store(ctypes.c_size_t, address, HANDLES.add(made))


def _as_result(error: Exception, call: str) -> NNAPIError:
    if isinstance(error, NNAPIError):
        return error
    if isinstance(error, MemoryError):
        return refused("there is not enough memory", ResultCode.OUT_OF_MEMORY, where=call)
    why = f"{type(error).__name__}: {error}"
    return refused("a call failed", ResultCode.OP_FAILED, where=call, why=why)
