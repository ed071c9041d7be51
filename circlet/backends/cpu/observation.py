"""Observers of native runs: steps that C tells of become observations of ops.

Where values lie stands in the section of the artifact that `observation_table.py` makes.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from circlet.backends.base import Observation, ObservedValue, Observer
from circlet.errors import ArtifactError

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64)


class Observing:
    """An observer of a binding: C tells of steps, this makes them observations of ops.

    Attributes:
        callback: What C calls behind each step, as long as this object lives.
    """

    def __init__(
        self,
        table: bytes | memoryview,
        observer: Observer,
        address: Callable[[int, int, int], int],
        cancel: Callable[[], None],
    ) -> None:
        """`address` is that of a space, a buffer in it and an offset; `cancel` stops the run."""
        self._owners, self._rows = _parsed(table)
        self._observer, self._address, self._cancel = observer, address, cancel
        self._pending_ns: dict[int, int] = {}
        self._error: BaseException | None = None
        self.callback = _CALLBACK(self._after_step)

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
            self._cancel()

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
