"""What flows in and out of a session, as the artifact's metadata describes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from circlet.errors import InputError, LimitError
from circlet.small_dtypes import dtype_named
from circlet.struct import Struct
from circlet.words import counted

TEXT_BYTES = 64  # of a short string as an object, and the reference to it


class Named(Protocol):
    """Anything with a name that the user gave it."""

    @property
    def name(self) -> str:
        """The name; it may be empty or repeated."""
        ...


OPEN_SIZES = (1, 32, 64, 128, 256, 512, 2048, 16384)
"""What is tried, in order, for sizes that neither the file nor the user states."""


class Value(Struct):
    """An input, an output or a tensor between partitions.

    Attributes:
        name: The user's name.
        dtype: numpy dtype name; "object" for strings, whose elements are `bytes`.
        shape: Sizes; -1 where a size depends on the data of a run.
        scale, zero_point: Quantisation, empty when the value is not quantised.
        initial: Where the value lives on from run to run, the bytes it starts as, or one byte
            for all of it.
        open: Dimensions that the file leaves open; `Session.run` takes any size there.
        continues: Of an output, the number of the input that it continues, or -1: both may be bound
            to one array, of which then only what is new is written.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    initial: bytes | None = None
    open: tuple[int, ...] = ()
    continues: int = -1

    @staticmethod
    def from_json(fields: Mapping[str, object]) -> Value:
        """The value that `as_json` wrote."""
        initial = fields.get("initial")
        return Value(
            str(fields["name"]),
            str(fields["dtype"]),
            tuple(fields["shape"]),  # type: ignore[arg-type]
            tuple(fields["scale"]),  # type: ignore[arg-type]
            tuple(fields["zero_point"]),  # type: ignore[arg-type]
            None if initial is None else bytes.fromhex(str(initial)),
            tuple(fields["open"]),  # type: ignore[arg-type]
            int(str(fields.get("continues", -1))),
        )

    def living(self, initial: bytes) -> Value:
        """This value as one that lives on from run to run."""
        return self._replace(initial=initial)

    def as_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        initial = None if self.initial is None else self.initial.hex()
        return {**self._asdict(), "initial": initial}

    @property
    def is_text(self) -> bool:
        """Whether the elements are strings."""
        return self.dtype == "object"

    @property
    def is_dynamic(self) -> bool:
        """Whether the shape is known only after a run."""
        return -1 in self.shape

    @property
    def bytes(self) -> int:
        """The size of its elements, where its shape is known; strings count as short ones."""
        return prod(self.shape) * (TEXT_BYTES if self.is_text else dtype_named(self.dtype).itemsize)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape differs from this one only where the file leaves sizes open."""
        return len(shape) == len(self.shape) and all(
            given == size or index in self.open
            for index, (given, size) in enumerate(zip(shape, self.shape, strict=True))
        )

    def outgrown_by(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The axes along which a shape is twice as large as one of `OPEN_SIZES`, or more.

        The first axis is not among them: how many there are of what the file describes.
        """
        return tuple(
            axis
            for axis in self.open
            if axis and self.shape[axis] in OPEN_SIZES and 2 * self.shape[axis] <= shape[axis]
        )

    def empty(self) -> np.ndarray:
        """A new array for it, 64-byte aligned, contents undefined.

        Raises:
            LimitError: There is not enough memory.
        """
        dtype = dtype_named(self.dtype)
        if self.is_dynamic:
            return np.empty(0, dtype)
        if self.is_text:
            return np.full(self.shape, b"", dtype)
        try:
            raw = np.empty(self.bytes + 64, np.uint8)
        except MemoryError as error:
            why = f"{self.bytes} bytes are needed"
            raise LimitError("there is not enough memory", where=self.name, why=why) from error
        start = -raw.__array_interface__["data"][0] % 64
        try:
            return np.ndarray(self.shape, dtype, raw, start)
        except ValueError as error:  # no elements, and sizes whose product numpy cannot hold
            why = f"its sizes are {list(self.shape)}"
            raise LimitError("a value has impossible sizes", where=self.name, why=why) from error

    def check(self, array: object, role: str) -> np.ndarray:
        """The array, C-contiguous and aligned, if its dtype and shape are those of the value.

        Raises:
            InputError: They are not.
        """
        given = as_array(array, role, self.name)
        return self._fitting(as_strings(given, self.name) if self.is_text else given, role)

    def _fitting(self, given: np.ndarray, role: str) -> np.ndarray:
        if given.dtype != dtype_named(self.dtype):
            raise InputError(
                f"{role} has the wrong dtype",
                where=self.name,
                why=f"it is {given.dtype}, the network wants {self.dtype}",
                fix=self._dtype_hint(given.dtype),
            )
        if given.shape != self.shape:
            raise InputError(
                f"{role} has the wrong shape",
                where=self.name,
                why=f"it is {list(given.shape)}, the network wants {list(self.shape)}",
            )
        return np.require(given, requirements=("C_CONTIGUOUS", "ALIGNED"))

    def check_buffer(self, array: object, role: str, writable: bool) -> np.ndarray:
        """An array that native code may use in place: also contiguous, and writable if asked.

        Raises:
            InputError: It is not.
        """
        if not isinstance(array, np.ndarray):
            why, fix = f"it is of type {type(array).__name__}", "bind a numpy array"
            raise InputError(f"{role} is not a numpy array", where=self.name, why=why, fix=fix)
        if not is_plain(array) or (writable and not array.flags.writeable):
            raise InputError(
                f"{role} cannot be used in place",
                where=self.name,
                why="it is not C-contiguous and aligned, or it is read-only",
                fix="bind a C-contiguous, writable array",
            )
        return self._fitting(array, role)

    def _dtype_hint(self, given: np.dtype) -> str:
        if given.kind not in "biufc":
            return f"pass an array of {self.dtype}"
        if len(self.scale) != 1:
            return f"pass array.astype('{self.dtype}')"
        return (
            f"quantise: round(x / {self.scale[0]:g}) + {self.zero_point[0]}, "
            f"clamped to {self.dtype}"
        )


def is_plain(array: np.ndarray) -> bool:
    """Whether native code can read an array where it lies."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def as_array(given: object, role: str, name: str) -> np.ndarray:
    """The array that numpy makes of an argument; InputError where it cannot."""
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:  # tensors of other engines
        raise InputError(
            f"{role} is not an array", where=name, why=str(error), fix="pass a numpy array"
        ) from error


def as_strings(array: np.ndarray, name: str) -> np.ndarray:
    """An array of `bytes`; text is encoded as UTF-8.

    Raises:
        InputError: An element is neither bytes nor text.
    """
    strings = np.empty(array.shape, object)
    for index, element in enumerate(array.flat):
        if not isinstance(element, (bytes, str)):
            why = f"it has an element of type {type(element).__name__}"
            raise InputError("a value is not an array of strings", where=name, why=why)
        strings.flat[index] = element.encode() if isinstance(element, str) else bytes(element)
    return strings


def check_buffers(
    values: Sequence[Value],
    given: Sequence[object] | Mapping[str, object],
    role: str,
    *,
    writable: bool,
) -> list[np.ndarray]:
    """Arrays in the order of `values`, from a sequence or by name, that code can use in place.

    Raises:
        InputError: As `by_position` and `Value.check_buffer`.
    """
    pairs = zip(values, by_position(values, given, role), strict=True)
    return [value.check_buffer(array, role, writable) for value, array in pairs]


def by_position(
    values: Sequence[Value], given: Sequence[object] | Mapping[str, object], role: str
) -> list[object]:
    """Arguments in the order of `values`, from a sequence or from a mapping by name.

    Raises:
        InputError: The count differs, or a name is missing or unknown.
    """
    if isinstance(given, Mapping):
        names = unique_names(values)
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            raise InputError(
                f"{role}s do not match by name",
                why=f"missing: {missing or 'none'}; unknown: {unknown or 'none'}",
                fix=f"the names are {names}",
            )
        return [given[name] for name in names]
    wanted = f"a list or a dict of {counted(len(values), 'array')}"
    if not _is_row(given):
        raise InputError.mistyped(f"{role}s", given, wanted)
    if len(given) != len(values):
        raise InputError(
            f"{counted(len(given), role)} given, {len(values)} wanted",
            fix=f"in order: {unique_names(values)}",
        )
    return list(given)


def _is_row(given: object) -> bool:
    """Whether elements can be taken for arrays; those of one array are its rows."""
    return isinstance(given, Collection) and not isinstance(given, np.ndarray)


def check_apart(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    names: Sequence[str],
    continued: Sequence[int] = (),
) -> None:
    """Checks that no output array shares memory with an input or with another output.

    An output may be the array of the input that it continues, whose position is in `continued`.

    All are contiguous. Goes over their addresses once: whatever starts before an output seen ends,
    and an output that starts before anything seen ends, overlap.

    Raises:
        InputError: One does; it is named.
    """
    shared = {at for at, array in zip(continued, outputs, strict=False) if _is(at, inputs, array)}
    rows = [(*_extent(array), "") for at, array in enumerate(inputs) if at not in shared]
    rows += [(*_extent(a), name or "an output") for a, name in zip(outputs, names, strict=True)]
    end, output_end, last_output = 0, 0, ""
    for start, stop, output in sorted(row for row in rows if row[0] < row[1]):
        if start < output_end or (output and start < end):
            raise InputError(
                "output cannot be written in place",
                where=output or last_output,
                why="its array shares memory with another input or output",
                fix="bind arrays that do not overlap",
            )
        end = max(end, stop)
        if output:
            output_end, last_output = stop, output


def _is(at: int, inputs: Sequence[np.ndarray], output: np.ndarray) -> bool:
    return 0 <= at < len(inputs) and _extent(inputs[at]) == _extent(output)


def _extent(array: np.ndarray) -> tuple[int, int]:
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def unique_names(values: Sequence[Named]) -> list[str]:
    """Names of values, repeated ones numbered by position."""
    given = {value.name for value in values}
    names: dict[str, None] = {}
    for index, value in enumerate(values):
        name = value.name
        while name in names or (name != value.name and name in given):
            name = f"{name}:{index}"
        names[name] = None
    return list(names)
