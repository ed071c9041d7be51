"""What C programs hand over: structs, arrays and texts at addresses, and handles of objects."""

from __future__ import annotations

import ctypes
from _thread import allocate_lock
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from circlet.frontends.nnapi.burst import Burst
from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.device import Device
from circlet.frontends.nnapi.event import Event
from circlet.frontends.nnapi.execution import Execution
from circlet.frontends.nnapi.memory import Memory
from circlet.frontends.nnapi.model import Model
from circlet.frontends.nnapi.object import NNAPIObject, refused
from circlet.frontends.nnapi.operand_type import OperandType
from circlet.words import counted

Address = int
"""The address of something in this process, 0 for none."""
Handle = int
"""The number that stands for an object, 0 for none."""

_Object = Model | Compilation | Execution | Event | Burst | Memory | Device
Kind = TypeVar("Kind", Model, Compilation, Execution, Event, Burst, Memory, Device)
_MOST_RANK = 1 << 16


class CType(ctypes.Structure):
    """ANeuralNetworksOperandType."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("dimension_count", ctypes.c_uint32),
        ("dimensions", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
    )


class CChannels(ctypes.Structure):
    """ANeuralNetworksSymmPerChannelQuantParams."""

    _fields_ = (
        ("channel_dim", ctypes.c_uint32),
        ("scale_count", ctypes.c_uint32),
        ("scales", ctypes.c_void_p),
    )


class Handles:
    """Objects by numbers that are never used again; any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._objects: dict[Handle, _Object] = {}
        self._next = 1
        self._devices: dict[Device, Handle] = {}

    def add(self, made: _Object) -> Handle:
        """A new number for an object; a device keeps its own."""
        with self._lock:
            if isinstance(made, Device) and made in self._devices:
                return self._devices[made]
            handle, self._next = self._next, self._next + 1
            self._objects[handle] = made
            if isinstance(made, Device):
                self._devices[made] = handle
            return handle

    def find(self, kind: type[Kind], handle: Handle, call: str) -> Kind:
        """The object of a number.

        Raises:
            NNAPIError: UNEXPECTED_NULL for 0, DEAD_OBJECT for an object that was freed, BAD_DATA
                for what is none of the kind.
        """
        found = self._objects.get(handle)
        if isinstance(found, kind):
            return found
        result = ResultCode.BAD_DATA
        if not handle:
            result = ResultCode.UNEXPECTED_NULL
        elif found is None and 0 < handle < self._next:
            result = ResultCode.DEAD_OBJECT
        raise refused(f"there is no such {kind.__name__.lower()}", result, where=call)

    def drop(self, kind: type[NNAPIObject], handle: Handle) -> NNAPIObject | None:
        """Forget a number; its object, None where there is none of the kind."""
        with self._lock:
            found = self._objects.get(handle)
            if not isinstance(found, kind):
                return None
            del self._objects[handle]
            return found


def memory_at(address: Address, length: int, call: str) -> np.ndarray | None:
    """The bytes at an address; None where both are 0.

    Raises:
        NNAPIError: BAD_DATA where one of them is 0, or the length is negative.
    """
    if not address and not length:
        return None
    if not address or length <= 0:
        raise refused("a buffer and its length do not agree", where=call, why=f"{length} bytes")
    view = memoryview((ctypes.c_uint8 * length).from_address(address))
    return np.frombuffer(view, np.uint8)


def needed(address: Address, call: str) -> Address:
    """The address, where it is one; UNEXPECTED_NULL else."""
    if not address:
        raise refused("a pointer is null", ResultCode.UNEXPECTED_NULL, where=call)
    return address


def type_at(address: Address, call: str) -> OperandType:
    """The type that a struct says."""
    found = CType.from_address(needed(address, call))
    dims = indices_at(found.dimensions or 0, found.dimension_count, call)
    return OperandType(found.type, dims, found.scale, found.zero_point)


def optional_type_at(address: Address, call: str) -> OperandType | None:
    """The type that a struct says; None for a null pointer."""
    return type_at(address, call) if address else None


def indices_at(address: Address, count: int, call: str) -> tuple[int, ...]:
    """An array of `uint32_t`."""
    if not count:
        return ()
    if count >= _MOST_RANK << 8:
        raise refused("an array is too long", where=call, why=counted(count, "element"))
    return tuple((ctypes.c_uint32 * count).from_address(needed(address, call)))


def floats_at(address: Address, count: int, call: str) -> tuple[float, ...]:
    """An array of `float`."""
    return tuple((ctypes.c_float * count).from_address(needed(address, call))) if count else ()


def handles_at(address: Address, count: int, call: str) -> tuple[int, ...]:
    """An array of pointers to objects."""
    if not count:
        return ()
    found = (ctypes.c_size_t * count).from_address(needed(address, call))
    return tuple(int(handle) for handle in found)


def store(kind: Callable[[], object], address: Address, value: object) -> None:
    """Write one value of a C type where a pointer says."""
    kind.from_address(address).value = value  # type: ignore[attr-defined]
