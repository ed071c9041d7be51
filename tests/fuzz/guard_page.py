"""Arrays that end at memory which may not be touched: one byte further is a crash."""

from __future__ import annotations

import ctypes
import mmap
from math import prod

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_NO_ACCESS = 0


def guarded(shape: tuple[int, ...], dtype: str | np.dtype[np.generic]) -> np.ndarray:
    """An array of zeros that ends where its memory does."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    whole = np.frombuffer(pages, np.uint8)
    end = whole.ctypes.data + room
    if _LIBC.mprotect(end, mmap.PAGESIZE, _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
    return whole[room - size : room].view(kind).reshape(shape)


def guarded_copy(array: np.ndarray) -> np.ndarray:
    """A copy of an array that ends where its memory does."""
    copy = guarded(array.shape, array.dtype)
    copy[...] = array
    return copy
