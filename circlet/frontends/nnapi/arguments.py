"""Inputs and outputs of an execution: buffers of the caller, checked, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeGuard

import numpy as np

from circlet.artifact.values import Value
from circlet.formats.nnapi.description import Dims, Operand
from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.memory import Bytes
from circlet.frontends.nnapi.object import refused
from circlet.frontends.nnapi.operand_type import OperandType, is_known
from circlet.small_dtypes import dtype_named


class Argument:
    """What an execution was given for one operand.

    Attributes:
        dims: The sizes, as far as they are known; None where the argument is omitted.
        held: The bytes of the caller, where they lie; with padding, more than the sizes need.
        array: The elements where they lie, where all sizes are known and the memory is aligned.
    """

    __slots__ = ("array", "dims", "held")

    def __init__(
        self, dims: Dims | None, held: Bytes | None, array: np.ndarray | None = None
    ) -> None:
        self.dims, self.held, self.array = dims, held, array

    @property
    def kept(self) -> np.ndarray | None:
        """All of the caller's memory; None where the argument is omitted."""
        return self.array if self.held is None else self.held

    @property
    def length(self) -> int:
        """How many bytes there are."""
        kept = self.kept
        return 0 if kept is None else kept.nbytes


OMITTED = Argument(None, None)


class Place:
    """An operand that callers give or get, and what is asked of it at every execution.

    Attributes:
        operand: The operand.
        dims: Its sizes.
        dtype: The type of its elements.
        is_sized: Whether it has a rank, and all sizes are stated.
    """

    __slots__ = ("dims", "dtype", "is_sized", "operand")

    def __init__(self, operand: Operand) -> None:
        self.operand, self.dims = operand, operand.dims
        self.dtype = operand.code.dtype.numpy
        self.is_sized = is_known(self.dims) and (operand.code.is_scalar or bool(self.dims))


Given = Argument | np.ndarray  # an array that has its operand's type and sizes stands for itself


def is_plain(buffer: object, place: Place, is_written: bool) -> TypeGuard[np.ndarray]:
    """Whether a buffer is an array that has the operand's type and sizes, and serves as it is."""
    if type(buffer) is not np.ndarray or buffer.shape != place.dims or not place.is_sized:
        return False
    if buffer.dtype != place.dtype:
        return False
    flags = buffer.flags
    return flags.carray if is_written else flags.c_contiguous and flags.aligned


def as_argument(given: Given) -> Argument:
    """What was given, as an argument."""
    return given if isinstance(given, Argument) else Argument(given.shape, None, given)


def argument_of(
    place: Place,
    type: OperandType | None,
    held: Bytes,
    call: str,
    *,
    is_written: bool,
    may_pad: bool,
) -> Argument:
    """An argument of bytes, whose sizes a type may state.

    Raises:
        NNAPIError: BAD_DATA where it does not fit.
    """
    dims = _dims(place.operand, type, call)
    unknown = not is_known(dims) or (not dims and not place.operand.code.is_scalar)
    if unknown and not is_written:
        raise refused("an input has unknown sizes", where=call, why=str(list(dims)))
    if not held.nbytes:
        raise refused("a buffer is empty", where=call)
    if is_written and not held.flags.writeable:
        raise refused("an output cannot be written", where=call, why="its buffer is read-only")
    if unknown:
        return Argument(dims, held)
    needed = prod(dims) * place.dtype.itemsize
    if held.nbytes < needed or (held.nbytes != needed and not may_pad):
        why = f"{held.nbytes} bytes, {needed} are needed"
        raise refused("a buffer has the wrong size", where=call, why=why)
    return Argument(dims, held, aligned_view(held, dims, place.dtype))


def omitted_argument(place: Place, type: OperandType | None, call: str) -> Argument:
    """The argument that is left out; raises as `argument_of`."""
    _dims(place.operand, type, call)
    return OMITTED


def aligned_view(held: Bytes, dims: Dims, dtype: np.dtype[np.generic]) -> np.ndarray | None:
    """The elements at the start of some bytes; None where they are not aligned."""
    array: np.ndarray = np.ndarray(dims, dtype, held)
    return array if array.flags.aligned else None


def _dims(operand: Operand, type: OperandType | None, call: str) -> Dims:
    """The sizes that a type states, or the operand does."""
    if type is None:
        return operand.dims
    type.checked(call)
    dims = tuple(type.dims)
    if not operand.dims:
        return () if operand.code.is_scalar else dims
    pairs = zip(operand.dims, dims, strict=False)
    if len(dims) != len(operand.dims) or any(own not in (0, given) for own, given in pairs):
        why = f"{list(dims)}, the model has {list(operand.dims)}"
        raise refused("a type does not fit its operand", where=call, why=why)
    return dims


class Ready:
    """Arrays for a run: those of the caller, and copies of what cannot be used in place.

    Attributes:
        arrays: One for each value.
        copies: Arrays of our own, and the caller's bytes that belong to them.
    """

    __slots__ = ("arrays", "copies")

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.copies: list[tuple[np.ndarray, Bytes]] = []

    def copy_in(self) -> None:
        """Read what the caller has put where it cannot be used in place."""
        for array, held in self.copies:
            _bytes(array)[...] = held

    def copy_out(self) -> None:
        """Write what was computed elsewhere to where the caller wants it."""
        for array, held in self.copies:
            held[...] = _bytes(array)


def ready_inputs(values: Sequence[Value], arguments: Sequence[Argument]) -> Ready:
    """The arrays of inputs that are given."""
    ready = Ready()
    for value, argument in zip(values, arguments, strict=True):
        if argument.array is not None:
            ready.arrays.append(argument.array)
        else:
            assert argument.dims is not None and argument.held is not None
            array: np.ndarray = np.empty(argument.dims, dtype_named(value.dtype))
            ready.arrays.append(array)
            ready.copies.append((array, argument.held[: array.nbytes]))
    return ready


def ready_outputs(
    values: Sequence[Value], arguments: Sequence[Argument], inputs: Sequence[Argument]
) -> Ready:
    """Arrays for outputs of known sizes that have room; those that overlap another are copied."""
    ready, taken = Ready(), _Taken(inputs)
    for value, argument in zip(values, arguments, strict=True):
        array = argument.array
        if argument.dims is None:
            ready.arrays.append(value.empty())
            continue
        if array is None and argument.held is not None:
            array = aligned_view(argument.held, value.shape, dtype_named(value.dtype))
        is_apart = taken.add(argument)
        if array is None or not is_apart:
            array = value.empty()
            held = argument.held if argument.held is not None else _bytes(argument.array)
            ready.copies.append((array, held[: array.nbytes]))
        ready.arrays.append(array)
    return ready


class _Taken:
    """Memory that arguments take up."""

    _FEW = 8

    def __init__(self, inputs: Sequence[Argument]) -> None:
        self._arrays = [kept for each in inputs if (kept := each.kept) is not None]
        self._extents = [_extent(array) for array in self._arrays[self._FEW :]]

    def add(self, argument: Argument) -> bool:
        """Take an argument's memory as well; whether nothing had any of it before."""
        new = argument.kept
        assert new is not None
        is_apart = not any(np.may_share_memory(new, array) for array in self._arrays[: self._FEW])
        if len(self._arrays) >= self._FEW:
            start, end = _extent(new)
            is_apart &= not any(start < last and first < end for first, last in self._extents)
            self._extents.append((start, end))
        self._arrays.append(new)
        return is_apart


def _extent(array: np.ndarray) -> tuple[int, int]:
    start = int(array.__array_interface__["data"][0])
    return start, start + array.nbytes


def has_room(argument: Argument, needed: int) -> bool:
    """Whether an output of some bytes fits what the caller gave for it."""
    return argument.dims is None or argument.length >= needed


def check_stated(place: Place, argument: Argument, shape: Dims, call: str) -> None:
    """See that the sizes that a caller stated for an output are those that are computed.

    Raises:
        NNAPIError: OP_FAILED where they are not.
    """
    dims = argument.dims
    if not dims:
        return
    pairs = zip(dims, shape, strict=False)
    if len(dims) != len(shape) or any(own not in (0, size) for own, size in pairs):
        why = f"{list(dims)} are stated, {list(shape)} are computed"
        name = place.operand.name
        where = f"{call}: {name}" if name else call
        raise refused("an output has other sizes", ResultCode.OP_FAILED, where=where, why=why)


def _bytes(array: np.ndarray | None) -> Bytes:
    assert array is not None
    return array.reshape(-1).view(np.uint8)
