"""Loads compiled code into the process; on the path of every cached start."""

from __future__ import annotations

import _ctypes
import ctypes
import itertools
import os
import weakref
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from circlet.errors import ArtifactError, InputError
from circlet.forking import undivided

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Image = bytes | memoryview

_INTERRUPTED = 9  # of `enum circlet_status`
_load_numbers = itertools.count(1)


class Library:
    """A shared object loaded from bytes; unloaded when it is garbage."""

    def __init__(self, image: Image, name: str) -> None:
        with undivided():
            self._library = _open_image(image, name)
        unload = weakref.finalize(self, _ctypes.dlclose, self._library._handle)
        unload.atexit = False

    def symbol(self, name: str) -> int:
        """The address of an exported object."""
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
        except ValueError as error:
            raise ArtifactError("compiled code lacks a symbol", why=str(error)) from error

    def function(self, name: str, *arguments: object) -> Callable[..., int]:
        """An exported function with its argument types; it returns a 32-bit number."""
        try:
            found = self._library[name]
        except AttributeError as error:
            raise ArtifactError("compiled code lacks a function", why=str(error)) from error
        found.argtypes = arguments  # type: ignore[assignment]
        found.restype = ctypes.c_uint32
        return found


def _open_image(image: Image, name: str) -> ctypes.CDLL:
    try:
        return _open_in_memory(image, name)
    except OSError:
        return _open_from_file(image)


def _open_in_memory(image: Image, name: str) -> ctypes.CDLL:
    """The path is spelled differently each time: dlopen tells libraries apart by name first."""
    descriptor = os.memfd_create(f"circlet-{name}")
    try:
        _write_all(descriptor, image)
        unique = f"{next(_load_numbers):b}".replace("1", "./").replace("0", "/")
        return ctypes.CDLL(f"/proc/self/fd/{unique}{descriptor}", mode=os.RTLD_NOW)
    finally:
        os.close(descriptor)


def _open_from_file(image: Image) -> ctypes.CDLL:
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(prefix="circlet-", suffix=".so") as file:
            file.write(image)
            file.flush()
            return ctypes.CDLL(file.name, mode=os.RTLD_NOW)
    except OSError as error:
        raise ArtifactError(
            "compiled code cannot be loaded",
            why=str(error),
            fix="check that the code was built for this system, and that the temporary folder "
            "has room and allows execution",
        ) from error


def _write_all(descriptor: int, image: Image) -> None:
    rest = memoryview(image)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class Runtime:
    """The runtime library of one target, loaded; holds the thread pool of the process."""

    def __init__(self, image: Image) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
        self.library = Library(image, "runtime")
        function = self.library.function
        self.executable_create = function(
            "circlet_executable_create", pointer, size, pointer, size, pointer, number, pointer
        )
        self.executable_release = function("circlet_executable_release", pointer)
        self.binding_create = function(
            "circlet_binding_create", pointer, pointer, pointer, number, pointer
        )
        self.binding_destroy = function("circlet_binding_destroy", pointer)
        self.binding_set_input = function("circlet_binding_set_input", pointer, number, pointer)
        self.binding_set_output = function("circlet_binding_set_output", pointer, number, pointer)
        self.binding_profile = function("circlet_binding_profile", pointer, pointer)
        self.run = function("circlet_run", pointer, size)
        self.cancel = function("circlet_cancel", pointer)
        self.pool_workers = function("circlet_pool_workers")
        self.usable_cores = function("circlet_usable_cores")
        self._interrupt: object = None

    def hear_signals(self) -> None:
        """Have long runs on the main thread let handlers of signals run."""
        if self._interrupt is None:
            pointer = ctypes.c_void_p
            asking = _asked()
            next(asking)
            self._interrupt = ctypes.CFUNCTYPE(ctypes.c_uint32)(partial(next, asking, 0))
            ask = self.library.function("circlet_ask_interrupt", pointer)
            ask(ctypes.cast(self._interrupt, pointer))


_raised: list[BaseException] = []


def _asked() -> Generator[int, None, None]:
    """How many errors handlers of signals have raised, each time that it is asked.

    Python runs handlers where a generator goes on, which is inside of `try`: their errors must not
    cross C. Only runs on the main thread ask; they raise them when they have ended.
    """
    while True:
        try:
            while True:
                yield len(_raised)
        except GeneratorExit:
            return
        except BaseException as error:
            _raised.append(error)


_runtimes: dict[bytes, Runtime] = {}


def load_runtime(image: Image) -> Runtime:
    """The runtime library of these bytes; one per process, never unloaded: its threads stay."""
    key = bytes(image)
    with undivided():  # nobody forks a process that loads it half
        if key not in _runtimes:
            _runtimes[key] = Runtime(key)
        return _runtimes[key]


def address_of(array: Array) -> int:
    """The address of a contiguous array's first element."""
    if not array.flags.c_contiguous:
        raise InputError("a buffer is not contiguous", fix="pass numpy.ascontiguousarray(buffer)")
    return int(array.__array_interface__["data"][0])


def check(status: int) -> None:
    """Raises the error of a status other than OK."""
    if status:
        if status == _INTERRUPTED and _raised:
            raise _raised.pop()
        from circlet.backends.cpu.status import Status, error_of

        raise error_of(Status(status))
