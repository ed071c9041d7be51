"""Views of an interpreter's memory that somebody may still hold."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also

_SENTENCE = "There is at least 1 reference to internal data"


class _Memory:
    """What a view and all arrays made of it have as their base: alive as long as one of them is."""

    __slots__ = ("__array_interface__", "__weakref__", "_array")

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        address = array.__array_interface__["data"]
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (array.nbytes,),
            "typestr": "|u1",
            "data": address,
        }


class HeldViews:
    """Gives views of arrays and knows whether any of them, or a slice of one, is held."""

    def __init__(self) -> None:
        self._given: list[weakref.ref[Any]] = []

    def view(self, array: np.ndarray) -> np.ndarray:
        """A view of a contiguous array; of strings, slices of the view are not known of."""
        if array.dtype.hasobject:
            found = array.view()
            self._remember(found)
            return found
        memory = _Memory(array)
        self._remember(memory)
        return np.asarray(memory).view(array.dtype).reshape(array.shape)

    def any_held(self) -> bool:
        """Whether a view is still in use."""
        self._given = [given for given in self._given if given() is not None]
        return bool(self._given)

    def check_none(self) -> None:
        """RuntimeError where a view is held: what is about to be done may replace its memory."""
        if not self.any_held():
            return
        raise also(
            InputError(
                "a view of a tensor's memory is held",
                why="its values would change, or be gone, under whoever holds it",
                fix="hold the function that tensor() returns, or a copy: tensor(index)().copy()",
            ),
            RuntimeError,
            f"{_SENTENCE} in the interpreter in the form of a numpy array or slice.",
        )

    def _remember(self, given: object) -> None:
        if len(self._given) >= 64:
            self.any_held()
        self._given.append(weakref.ref(given))
