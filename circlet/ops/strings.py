"""Values of type STRING: TFLite's packed form of many strings in one buffer.

The buffer holds little-endian int32 numbers, the count n and n + 1 offsets, and then the bytes;
string i reaches from offset i to offset i + 1, counted from the buffer's start
(tensorflow/lite/string_util.h).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from circlet.errors import FormatError
from circlet.ir import Tensor
from circlet.words import counted


def unpack_strings(tensor: Tensor) -> np.ndarray:
    """A STRING constant as an array of `bytes` objects of the tensor's shape.

    Raises:
        FormatError: Count or offsets do not fit the buffer or the shape.
    """
    raw = np.asarray(tensor.data, np.uint8).tobytes()
    offsets = _offsets(raw, tensor)
    strings = np.empty(len(offsets) - 1, object)
    for index, (start, end) in enumerate(pairwise(offsets)):
        strings[index] = raw[start:end]
    if strings.size != np.prod(tensor.static_shape):
        raise _damaged(
            tensor, f"{counted(strings.size, 'string')} for shape {list(tensor.static_shape)}"
        )
    return strings.reshape(tensor.static_shape)


def pack_strings(strings: np.ndarray) -> bytes:
    """An array of `bytes` objects as a buffer of them."""
    parts = strings.reshape(-1).tolist()
    offsets = np.cumsum([4 * (len(parts) + 2), *map(len, parts)], dtype=np.int64)
    return np.array([len(parts), *offsets], "<i4").tobytes() + b"".join(parts)


def _offsets(raw: bytes, tensor: Tensor) -> list[int]:
    count = int.from_bytes(raw[:4], "little", signed=True)
    head = 4 * (count + 2)
    if len(raw) < 8 or not count >= 0 or head > len(raw):
        raise _damaged(tensor, f"{len(raw)} bytes cannot hold {counted(count, 'string')}")
    offsets = np.frombuffer(raw, "<i4", count + 1, 4).tolist()
    if offsets != sorted(offsets) or offsets[0] < head or offsets[-1] > len(raw):
        raise _damaged(tensor, "its offsets leave the buffer or go backwards")
    return offsets


def _damaged(tensor: Tensor, why: str) -> FormatError:
    return FormatError("a string constant is damaged", where=tensor.name, why=why)
