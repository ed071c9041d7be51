"""The forms in which TFLite Micro stores constants: look-up tables, pruned values, Huffman codes.

Encoded bytes go with a head of 16 bytes and what follows it: byte 0 is the form, bytes 1 and 4 are
versions, bytes 5 and 6 parameters. Fields of bits lie one after the other, the highest bit of a
byte first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from circlet.ir import DType, Tensor
from circlet.words import counted

LOOK_UP, HUFFMAN, PRUNED = range(3)
HEAD_BYTES, VERSION = 16, 1
MOST_BITS = 7
ONE_TABLE = 15  # in place of the axis that the tables of a constant are for
STORED = (DType.BOOL, DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64)
_BYTE = 8


class Channels(NamedTuple):
    """How many tables a constant has, and whether the last axis says which one, not the first."""

    number: int
    is_last: bool


class BrokenFormError(ValueError):
    """What is stored cannot be decoded; the message says why."""


def channels_of(tensor: Tensor) -> Channels:
    """The channels that a tensor's scales tell apart.

    Raises:
        BrokenFormError: They lie along an axis in the middle, or there are not as many scales.
    """
    quant, sizes = tensor.quant, tensor.static_shape
    if quant is None or not quant.is_per_channel:
        return Channels(1, False)
    count, is_last = quant.scale.size, quant.axis == len(sizes) - 1
    if quant.axis not in (0, len(sizes) - 1) or sizes[quant.axis] != count:
        raise BrokenFormError(f"{counted(count, 'scale')} along axis {quant.axis} of {list(sizes)}")
    return Channels(count, is_last)


def head_problem(head: np.ndarray) -> str:
    """Why bytes are no head of a known form; "" where they are."""
    if head.size < HEAD_BYTES:
        return f"{head.size} bytes are stored, a head takes {HEAD_BYTES}"
    if head[0] not in _DECODERS:
        return f"form {head[0]} is not known"
    versions = int(head[1]), int(head[4])
    return "" if versions == (VERSION, VERSION) else f"versions {versions} are not known"


def decoded(tensor: Tensor, encoded: np.ndarray, head: np.ndarray) -> np.ndarray:
    """The elements of a tensor, of its type and sizes.

    Args:
        tensor: What is decoded; its type is one of `STORED`.
        encoded: uint8, the encoded elements.
        head: uint8, a head without a problem, and what follows it.

    Raises:
        BrokenFormError: Some of it is missing, or does not stand for so many elements.
    """
    return _DECODERS[int(head[0])](tensor, encoded, head)


def looked_up(
    tensor: Tensor, encoded: np.ndarray, bits: int, tables: np.ndarray, channels: Channels
) -> np.ndarray:
    """The elements whose places in tables are stored.

    Args:
        tensor: Of the type and sizes of what is made.
        encoded: uint8, the places, each in so many bits.
        bits: 1 to 7.
        tables: uint8, the tables of all channels, equally long.
        channels: What has a table of its own.

    Raises:
        BrokenFormError: Places or tables are missing, or a place is not in its table.
    """
    dtype = tensor.dtype.numpy
    length = tables.size // (channels.number * dtype.itemsize)
    if not 1 <= bits <= MOST_BITS or not length:
        raise BrokenFormError(f"places of {bits} bits in {tables.size} bytes of tables")
    values = _elements(tables, dtype, channels.number * length).reshape(channels.number, length)
    places = _fields(encoded, bits, tensor.elements)
    if int(places.max(initial=0)) >= length:
        raise BrokenFormError(f"place {places.max()} of a table of {length}")
    if channels.is_last:
        found = values[np.arange(channels.number), places.reshape(-1, channels.number)]
    else:
        rows = places.reshape(channels.number, -1).astype(np.intp)
        found = np.take_along_axis(values, rows, 1)
    return found.reshape(tensor.static_shape)


def _from_tables(tensor: Tensor, encoded: np.ndarray, head: np.ndarray) -> np.ndarray:
    bits, length, tables = int(head[5]) & 7, int(head[6]), head[HEAD_BYTES:]
    count = tables.size // max(1, length * tensor.dtype.numpy.itemsize)
    channels = _with_tables(tensor, int(head[5]) >> 4, count)
    needed = channels.number * length * tensor.dtype.numpy.itemsize
    if tables.size < needed:
        raise BrokenFormError(f"{tables.size} bytes of tables, {needed} are needed")
    return looked_up(tensor, encoded, bits, tables[:needed], channels)


def _with_tables(tensor: Tensor, axis: int, count: int) -> Channels:
    """What has a table of its own: files of before the axis was said have 0, and go by scales."""
    sizes = tensor.static_shape
    if axis == ONE_TABLE or count == 1:
        return Channels(1, False)
    quant = tensor.quant
    if axis == 0 and quant is not None and quant.is_per_channel and count == quant.scale.size:
        return channels_of(tensor)
    if not sizes or axis not in (0, len(sizes) - 1) or not sizes[axis]:
        raise BrokenFormError(f"tables along axis {axis} of {list(sizes)}")
    return Channels(sizes[axis], axis > 0)


def _pruned(tensor: Tensor, encoded: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Values where a bit is 1, the zero point elsewhere."""
    kept = _fields(encoded, 1, tensor.elements).astype(bool).reshape(tensor.static_shape)
    made = pruned_background(tensor)
    made[kept] = _elements(head[HEAD_BYTES:], tensor.dtype.numpy, int(kept.sum()))
    return made


def pruned_background(tensor: Tensor) -> np.ndarray:
    """What stands where nothing was kept: the channel's zero point.

    Raises:
        BrokenFormError: A type other than INT8 has zero points that are not 0.
    """
    made = np.zeros(tensor.static_shape, tensor.dtype.numpy)
    quant = tensor.quant
    if quant is None or not quant.zero_point.any():
        return made
    if tensor.dtype is not DType.INT8:
        raise BrokenFormError(f"{tensor.dtype.name} with zero points")
    channels, sizes = channels_of(tensor), [1] * made.ndim
    if channels.number > 1:
        sizes[-1 if channels.is_last else 0] = channels.number
    made[...] = quant.zero_point.astype(np.int8).reshape(sizes)
    return made


def _from_codes(tensor: Tensor, encoded: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Symbols that tables of the next bits lead to; each entry is a symbol, or another table."""
    word, sizes = (np.dtype("<u4"), 27) if head[5] & 1 else (np.dtype("<u2"), 11)
    wanted = (DType.INT8, DType.INT16) if head[5] & 1 else (DType.INT8,)
    if tensor.dtype not in wanted:
        raise BrokenFormError(f"{tensor.dtype.name} as codes of {word.itemsize * _BYTE} bits")
    table = head[HEAD_BYTES:]
    entries = _elements(table, word, table.size // word.itemsize).tolist()
    symbols = _symbols(encoded.tobytes(), tensor.elements, entries, sizes, (int(head[5]) >> 4) + 1)
    return np.array(symbols).astype(tensor.dtype.numpy).reshape(tensor.static_shape)


def _symbols(data: bytes, count: int, entries: list[int], shift: int, first: int) -> list[int]:
    """So many symbols: entries below `shift` bits, four of a length, one that says it is a symbol.

    Raises:
        BrokenFormError: The codes end before, or lead out of the table.
    """
    end, place = len(data) * _BYTE, 0
    if count > end:
        raise BrokenFormError(f"{counted(count, 'code')} in {end} bits")
    found: list[int] = []
    for _ in range(count):
        used, at = first, _bits(data, place, first)
        place += used
        while at < len(entries) and not entries[at] >> (shift + 4) and place < end + _BYTE * 2:
            used = (entries[at] >> shift & 15) + 1
            at += (entries[at] & (1 << shift) - 1) + _bits(data, place, used)
            place += used
        if at >= len(entries):
            raise BrokenFormError(f"entry {at} of a table of {len(entries)}")
        place -= max(0, used - (entries[at] >> shift & 15))
        if place > end:
            raise BrokenFormError(
                f"the codes of {counted(count, 'element')} end after {len(found)}"
            )
        found.append(entries[at] & 0xFFFF)
    return found


def _bits(data: bytes, place: int, count: int) -> int:
    """The number that at most 16 bits make; what is behind the end are zeros."""
    start = place >> 3
    three = int.from_bytes(data[start : start + 3].ljust(3, b"\0"), "big")
    return three >> (24 - (place & 7) - count) & ((1 << count) - 1)


def _fields(encoded: np.ndarray, bits: int, count: int) -> np.ndarray:
    """So many numbers of so many bits each, as uint8."""
    if encoded.size * _BYTE < bits * count:
        raise BrokenFormError(f"{counted(count, 'field')} of {bits} bits in {encoded.size} bytes")
    single = np.unpackbits(encoded, count=bits * count).reshape(count, bits)
    return (np.packbits(single, 1) >> (_BYTE - bits)).reshape(count)


def _elements(stored: np.ndarray, dtype: np.dtype, count: int) -> np.ndarray:
    """So many elements of a type at the beginning of bytes, wherever these lie."""
    size = count * dtype.itemsize
    if stored.size < size:
        raise BrokenFormError(f"{stored.size} bytes of values, {size} are needed")
    return np.frombuffer(stored[:size].tobytes(), dtype)


_DECODERS: dict[int, Callable[[Tensor, np.ndarray, np.ndarray], np.ndarray]] = {
    LOOK_UP: _from_tables,
    HUFFMAN: _from_codes,
    PRUNED: _pruned,
}
