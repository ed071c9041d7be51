"""Memory of which only chosen extents may be touched."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterable

import numpy as np

from tests.sanitize.spread import PAGE, pages

JUNK = 0xA5
_NO_ACCESS, _READ, _READ_WRITE = 0, 1, 3
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_HAS_ASAN = hasattr(_LIBC, "__asan_poison_memory_region")


class Region:
    """Mapped bytes, full of junk; what lies outside the extents traps when it is touched.

    Where AddressSanitizer is loaded it learns of the last byte; else whole pages are protected.
    """

    def __init__(self, size_bytes: int, extents: Iterable[tuple[int, int]]) -> None:
        self._map = mmap.mmap(-1, pages(size_bytes) + PAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address = int(self._bytes.ctypes.data)
        # Whatever is mapped here later is not to be taken for this region.
        weakref.finalize(self, _tell_asan, "unpoison", self.address, self._bytes.size)
        self._extents = sorted(extents)
        for start, size in self._extents:
            self._bytes[start : start + size] = JUNK

    @property
    def first(self) -> int:
        """The address of the first extent."""
        return self.address + self._extents[0][0]

    def write(self, data: bytes | memoryview, start: int = 0) -> None:
        """Copy data into the region; only before `seal`."""
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def seal(self, *, read_only: bool = False) -> None:
        """Have everything but the extents trap."""
        if _HAS_ASAN:
            self._poison_gaps()
            return
        _protect(self.address, self._bytes.size, _NO_ACCESS)
        for start, size in self._extents:
            first = start // PAGE * PAGE
            length = pages(start + size) - first
            _protect(self.address + first, length, _READ if read_only else _READ_WRITE)

    def _poison_gaps(self) -> None:
        end = 0
        for start, size in [*self._extents, (self._bytes.size, 0)]:
            _tell_asan("poison", self.address + end, start - end)
            end = start + size


def _tell_asan(what: str, address: int, size_bytes: int) -> None:
    if _HAS_ASAN:
        function = _LIBC[f"__asan_{what}_memory_region"]
        function(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))


def _protect(address: int, size_bytes: int, access: int) -> None:
    if size_bytes and _LIBC.mprotect(address, size_bytes, access):
        raise OSError(ctypes.get_errno(), "mprotect")
