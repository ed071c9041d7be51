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

_ROW = frozenset({"step", "kind", "name", "values"})
_FIELDS = frozenset({"name", "dtype", "shape", "strides", "place", "scale", "zero_point", "axis"})
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
        memory: object,
    ) -> None:
        """Observe a binding.

        Args:
            table: The section of the artifact.
            observer: Who is told.
            address: The address of a space, a buffer in it and an offset.
            cancel: Stops the run.
            memory: What keeps the binding's memory, which arrays that outlive the call refer to.
        """
        self._owners, self._rows = _parsed(table)
        self._memory = memory
        self._observer, self._address, self._cancel = observer, address, cancel
        self._pending_ns: dict[int, int] = {}
        self._error: BaseException | None = None
        self.callback = _CALLBACK(self._after_step)

    def end(self) -> None:
        """Let go of the callback, which refers to this object."""
        self.callback = _CALLBACK()

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
        raw = np.asarray(_Memory(interface, self._memory))
        array = np.ndarray(shape, dtype, raw, 0, strides)
        return ObservedValue(
            facts["name"],
            array,
            tuple(facts["scale"]),
            tuple(facts["zero_point"]),
            facts["axis"],
        )


def operator_of(table: bytes | memoryview, step: int) -> str:
    """The operator that a step belongs to, by its name in the user's file; "" if none is told."""
    owners, rows = _parsed(table) if table else ([], {})
    named = (
        f"{row['name']} ({row['kind']})"
        for last, ended in rows.items()
        for row in ended
        if step < len(owners) and owners[last] == owners[step]
    )
    return next(named, "")


def _parsed(table: bytes | memoryview) -> tuple[list[int], dict[int, list[dict[str, Any]]]]:
    """The owner of each step, and the ops that each step ends."""
    rows: dict[int, list[dict[str, Any]]] = {}
    try:
        document = json.loads(bytes(table))
        owners: list[int] = list(document["owners"])
        for row in document["rows"]:
            values = [_FIELDS.issubset(value) for value in row["values"]]
            if not (_ROW.issubset(row) and all(values) and 0 <= row["step"] < len(owners)):
                raise ValueError(f"a row is incomplete: {row}")
            rows.setdefault(row["step"], []).append(row)
        return owners, rows
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError("an artifact is damaged", why=f"its values: {error!r}") from error


class _Memory:
    """Memory of a binding, as numpy sees it; keeps its owner."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self._owner = owner
