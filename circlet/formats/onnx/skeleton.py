"""A model's bytes without its large tensors, which stay views into the file.

Protocol buffers copy every field that is read. What is parsed here is therefore a rewritten message
in which the elements of large tensors are replaced by the number of a view.
"""

from __future__ import annotations

from collections.abc import Mapping

from circlet.errors import FormatError, LimitError

INLINE_BYTES = 1024  # smaller tensors are parsed with everything else
MARK = "\0circlet"  # no path holds a NUL
_DEPTH = 64
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_EXTERNAL = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Messages that hold tensors, by the numbers of their fields in onnx.proto.
_FIELDS: dict[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}


def skeleton(data: memoryview) -> tuple[bytes, list[memoryview]]:
    """The message without large tensors' elements, and the views that these are.

    Raises:
        FormatError: The bytes are no protocol buffer.
        LimitError: Graphs are nested too deeply.
    """
    views: list[memoryview] = []
    return bytes(_rewritten(data, "model", views, 0)), views


def _rewritten(data: memoryview, kind: str, views: list[memoryview], depth: int) -> bytearray:
    if depth > _DEPTH:
        raise LimitError("graphs are nested too deeply", why=f"the limit is {_DEPTH} messages")
    made, at, inner = bytearray(), 0, _FIELDS.get(kind, {})
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        at, body = _field(data, at, wire)
        if kind == "tensor" and number == _RAW_DATA and len(body) >= INLINE_BYTES:
            made += _reference(len(views))
            views.append(body)
        elif wire == _BYTES and number in inner:
            content = _rewritten(body, inner[number], views, depth + 1)
            made += _tagged(number, content)
        else:
            made += data[start:at]
    return made


def _field(data: memoryview, at: int, wire: int) -> tuple[int, memoryview]:
    """Where a field ends, and its bytes where it has a length."""
    if wire == _VARINT:
        return _varint(data, at)[1], data[:0]
    if wire == _BYTES:
        size, at = _varint(data, at)
        end = at + size
    elif wire in (_FIXED32, _FIXED64):
        size = 0
        end = at + (4 if wire == _FIXED32 else 8)
    else:
        raise _damaged(f"field type {wire} at byte {at}")
    if end > len(data):
        raise _damaged(f"a field ends at byte {end} of {len(data)}")
    return end, data[at:end] if wire == _BYTES else data[:0]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _damaged("a number does not end")


def _reference(index: int) -> bytearray:
    """Fields that say that the elements are view number `index`."""
    made = bytearray()
    for key, value in (("location", MARK), ("offset", str(index))):
        entry = _tagged(1, key.encode()) + _tagged(2, value.encode())
        made += _tagged(_EXTERNAL_DATA, entry)
    made += _encoded(_DATA_LOCATION << 3 | _VARINT) + _encoded(_EXTERNAL)
    return made


def _tagged(number: int, content: bytes | bytearray) -> bytearray:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _encoded(value: int) -> bytearray:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return made


def _damaged(why: str) -> FormatError:
    return FormatError("the .onnx file is damaged", why=why, fix="fetch or export it again")
