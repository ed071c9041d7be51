"""Fields of protocol buffers: numbers, lengths and what they hold.

On the path of cached starts of `InferenceSession`, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator

from circlet.errors import FormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(data: memoryview) -> Iterator[tuple[int, int, memoryview, memoryview]]:
    """Number, value of a number, content of what has a length, and all bytes of each field.

    Raises:
        FormatError: The bytes are no protocol buffer.
    """
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        value = read_varint(data, at)[0] if tag & 7 == VARINT else 0
        at, body = read_field(data, at, tag & 7)
        yield tag >> 3, value, body, data[start:at]


def read_field(data: memoryview, at: int, wire: int) -> tuple[int, memoryview]:
    """Where a field ends, and its bytes where it has a length; raises as `read_varint`."""
    if wire == VARINT:
        return read_varint(data, at)[1], data[:0]
    if wire == BYTES:
        size, at = read_varint(data, at)
        end = at + size
    elif wire in (FIXED32, FIXED64):
        size = 0
        end = at + (4 if wire == FIXED32 else 8)
    else:
        raise damaged(f"field type {wire} at byte {at}")
    if end > len(data):
        raise damaged(f"a field ends at byte {end} of {len(data)}")
    return end, data[at:end] if wire == BYTES else data[:0]


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends; FormatError where the bytes are no protocol buffer."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise damaged("a number does not end")


def tagged(number: int, content: bytes | bytearray) -> bytearray:
    """A field of a number with this content."""
    return encoded(number << 3 | BYTES) + encoded(len(content)) + content


def encoded(value: int) -> bytearray:
    """A number of at least 0 as bytes."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return made


def damaged(why: str) -> FormatError:
    """The error of bytes that are no protocol buffer."""
    return FormatError("the .onnx file is damaged", why=why, fix="fetch or export it again")
