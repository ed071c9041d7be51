"""Observers of native runs: steps that C tells of become observations of ops.

Where values lie stands in the section of the artifact that `observation_table.py` makes.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from circlet.backends.base import Observation, ObservedValue, Observer
from circlet.backends.cpu.loader import Executable, Library, address_of
from circlet.errors import ArtifactError

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64)
_ARENA, _INPUT, _OUTPUT = 1, 3, 4  # `enum circlet_space` of circlet_abi.h


class Observing:
    """An observer of a binding: C tells of steps, this makes them observations of ops."""

    def __init__(
        self,
        executable: Executable,
        handle: int,
        observer: Observer,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        library, values = executable.runtime.library, executable.values
        self._handle, self._observer = handle, observer
        self._cancel = executable.runtime.cancel
        self._start = self.function(library)
        arena = library.function("circlet_binding_arena", ctypes.c_void_p)
        arena.restype = ctypes.c_void_p  # type: ignore[attr-defined]
        self._arena = arena(handle) or 0
        self._buffers = {_INPUT: inputs, _OUTPUT: outputs}
        self._owners, self._rows = _parsed(values() if callable(values) else values)
        self._pending_ns: dict[int, int] = {}
        self._error: BaseException | None = None
        self._callback = _CALLBACK(self._after_step)  # C calls it as long as this lives

    @staticmethod
    def function(library: Library) -> Callable[..., int]:
        """The C function that sets an observer."""
        pointer = ctypes.c_void_p
        return library.function("circlet_binding_observe", pointer, pointer, pointer)

    def start(self) -> int:
        """Have every run tell this; the status."""
        return self._start(self._handle, ctypes.cast(self._callback, ctypes.c_void_p), None)

    def raise_error(self) -> None:
        """Raise what the observer raised in the run that has ended."""
        error, self._error = self._error, None
        self._pending_ns.clear()
        if error is not None:
            raise error

    def _after_step(self, context: int | None, step: int, ns: int) -> None:
        """Take in that a step has run, and tell of the ops that it ends."""
        if self._error is not None:
            return
        try:
            owner = self._owners[step]
            self._pending_ns[owner] = self._pending_ns.get(owner, 0) + ns
            for row in self._rows.get(step, ()):
                spent = self._pending_ns.pop(owner, 0)
                values = tuple(map(self._value, row["values"]))
                self._observer(Observation(row["kind"], row["name"], spent, values))
        except BaseException as error:  # must not cross C; the run raises it when it has ended
            self._error = error
            self._cancel(self._handle)

    def _address(self, space: int, index: int, offset: int) -> int:
        if space == _ARENA:
            return self._arena + offset
        return address_of(self._buffers[space][index]) + offset

    def _value(self, facts: Mapping[str, Any]) -> ObservedValue:
        dtype = np.dtype(facts["dtype"])
        shape, strides = tuple(facts["shape"]), tuple(facts["strides"])
        extent = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
        interface = {
            "shape": (extent if prod(shape) else 0,),
            "typestr": "|u1",
            "data": (self._address(*facts["place"]), True),
            "version": 3,
        }
        raw = np.asarray(_Memory(interface))
        array = np.ndarray(shape, dtype, raw, 0, strides)
        return ObservedValue(
            facts["name"],
            array,
            tuple(facts["scale"]),
            tuple(facts["zero_point"]),
            facts["axis"],
        )


def _parsed(table: bytes | memoryview) -> tuple[list[int], dict[int, list[dict[str, Any]]]]:
    """The owner of each step, and the ops that each step ends."""
    rows: dict[int, list[dict[str, Any]]] = {}
    try:
        document = json.loads(bytes(table))
        for row in document["rows"]:
            rows.setdefault(row["step"], []).append(row)
        return list(document["owners"]), rows
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError("an artifact is damaged", why=f"its values: {error!r}") from error


class _Memory:
    """Memory of a binding, as numpy sees it."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface
