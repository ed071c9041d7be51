"""What flows in and out of a session, as the artifact's metadata describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import InputError


@dataclass(frozen=True)
class Value:
    """An input, an output or a tensor between partitions.

    Attributes:
        name: The user's name.
        dtype: numpy dtype name.
        shape: Sizes.
        scale, zero_point: Quantisation, empty when the value is not quantised.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()

    @staticmethod
    def from_json(fields: Mapping[str, object]) -> Value:
        """The value that `as_json` wrote."""
        return Value(
            str(fields["name"]),
            str(fields["dtype"]),
            tuple(fields["shape"]),  # type: ignore[arg-type]
            tuple(fields["scale"]),  # type: ignore[arg-type]
            tuple(fields["zero_point"]),  # type: ignore[arg-type]
        )

    def as_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return dict(vars(self))

    def empty(self) -> np.ndarray:
        """A new array for it, 64-byte aligned, contents undefined."""
        count = int(np.prod(self.shape, dtype=np.int64))
        dtype = np.dtype(self.dtype)
        raw = np.empty(count * dtype.itemsize + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + count * dtype.itemsize].view(dtype).reshape(self.shape)

    def check(self, array: object, role: str) -> np.ndarray:
        """The array itself, C-contiguous, if its dtype and shape are those of the value.

        Raises:
            InputError: They are not.
        """
        given = np.asarray(array)
        if given.dtype != np.dtype(self.dtype):
            raise InputError(
                f"{role} has the wrong dtype",
                where=self.name,
                why=f"it is {given.dtype}, the network wants {self.dtype}",
                fix=self._quantisation_hint() or f"pass array.astype('{self.dtype}')",
            )
        if given.shape != self.shape:
            raise InputError(
                f"{role} has the wrong shape",
                where=self.name,
                why=f"it is {list(given.shape)}, the network wants {list(self.shape)}",
            )
        return given if given.flags.c_contiguous else np.ascontiguousarray(given)

    def check_buffer(self, array: object, role: str, writable: bool) -> np.ndarray:
        """An array that native code may use in place: also contiguous, and writable if asked.

        Raises:
            InputError: It is not.
        """
        if not isinstance(array, np.ndarray):
            raise InputError(f"{role} is not a numpy array", where=self.name)
        if not array.flags.c_contiguous or (writable and not array.flags.writeable):
            raise InputError(
                f"{role} cannot be used in place",
                where=self.name,
                why="it is not C-contiguous, or read-only",
                fix="bind a C-contiguous, writable array",
            )
        return self.check(array, role)

    def _quantisation_hint(self) -> str:
        if len(self.scale) != 1:
            return ""
        return (
            f"quantise: round(x / {self.scale[0]:g}) + {self.zero_point[0]}, "
            f"clamped to {self.dtype}"
        )


def by_position(
    values: Sequence[Value], given: Sequence[object] | Mapping[str, object], role: str
) -> list[object]:
    """Arguments in the order of `values`, from a sequence or from a mapping by name.

    Raises:
        InputError: The count differs, or a name is missing or unknown.
    """
    if isinstance(given, Mapping):
        names = [value.name for value in values]
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            raise InputError(
                f"{role}s do not match by name",
                why=f"missing: {missing or 'none'}; unknown: {unknown or 'none'}",
                fix=f"the names are {names}",
            )
        return [given[name] for name in names]
    if len(given) != len(values):
        raise InputError(
            f"{len(given)} {role}s given, {len(values)} wanted",
            fix=f"in order: {[value.name for value in values]}",
        )
    return list(given)
