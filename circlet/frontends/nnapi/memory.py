"""Memory that operands and arguments may lie in, and bytes of whatever has a buffer."""

from __future__ import annotations

import mmap
import os

import numpy as np

from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.object import NNAPIObject, refused
from circlet.frontends.nnapi.states import MEMORY, Phase

Bytes = np.ndarray
"""A flat array of uint8 over somebody's memory."""


class Memory(NNAPIObject):
    """A region of memory, of a file or of the caller.

    What lies in it is read and written where it is; arguments keep it alive after `free`. Whoever
    shortens a file while it is mapped ends the process, as with any mapped file.

    Attributes:
        size: Its bytes.
    """

    table = MEMORY

    def __init__(self, data: Bytes) -> None:
        super().__init__(Phase.READY)
        self._data = data
        self.size = data.nbytes

    @classmethod
    def create_from_fd(cls, size: int, protect: int, fd: int, offset: int = 0) -> Memory:
        """A region of a file, mapped so that all who map it share it.

        Args:
            size: Its bytes.
            protect: PROT_READ of the module `mmap`, or that with PROT_WRITE.
            fd: The file's descriptor, which may be closed afterwards.
            offset: Where in the file it starts.

        Raises:
            NNAPIError: BAD_DATA where the numbers are none; UNMAPPABLE where it cannot be mapped.
        """
        where = "ANeuralNetworksMemory_createFromFd"
        if fd < 0 or size <= 0 or offset < 0:
            why = f"{size} bytes from {offset} of descriptor {fd}"
            raise refused("there is no such memory", where=where, why=why)
        before = offset % mmap.ALLOCATIONGRANULARITY
        try:
            known = os.fstat(fd).st_size
            if offset + size > known:
                raise ValueError(f"the file has {known} bytes, {offset + size} are wanted")
            mapped = mmap.mmap(fd, size + before, mmap.MAP_SHARED, protect, offset=offset - before)
        except (OSError, ValueError, OverflowError) as error:
            result = ResultCode.UNMAPPABLE
            raise refused("memory cannot be mapped", result, where=where, why=str(error)) from None
        return cls(np.frombuffer(mapped, np.uint8, size, before))

    @classmethod
    def from_buffer(cls, buffer: object) -> Memory:
        """The memory of an object that has a buffer, such as an array.

        Raises:
            NNAPIError: BAD_DATA where it has none, or it is not contiguous.
        """
        return cls(bytes_of(buffer, "Memory.from_buffer"))

    def region(self, offset: int, length: int, call: str) -> Bytes:
        """Some of its bytes, for a call.

        Raises:
            NNAPIError: BAD_DATA where it is smaller; DEAD_OBJECT where it was freed.
        """
        self._enter(call)
        if offset < 0 or length <= 0 or offset + length > self.size:
            why = f"{length} bytes from {offset}, it has {self.size}"
            raise refused("a region is not inside of the memory", where=call, why=why)
        return self._data[offset : offset + length]

    def free(self) -> None:
        """Let go of the memory; what is bound to it already stays usable."""
        super().free()
        self._data = np.empty(0, np.uint8)


def bytes_of(buffer: object, where: str) -> Bytes:
    """The bytes of an object that has a contiguous buffer, where they lie.

    Raises:
        NNAPIError: UNEXPECTED_NULL for None, BAD_DATA for what has no such buffer.
    """
    if buffer is None:
        result = ResultCode.UNEXPECTED_NULL
        raise refused("there is no buffer", result, where=where)
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
        if not view.c_contiguous or view.format == "O":
            raise ValueError("it is not contiguous, or it holds objects")
        return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        why = f"{type(buffer).__name__}: {error}"
        raise refused("a buffer cannot be used", where=where, why=why) from None
