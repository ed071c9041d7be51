"""A model's bytes without its large tensors, which stay views into the file.

Protocol buffers copy every field that is read. What is parsed here is therefore a rewritten message
in which the elements of large tensors are replaced by the number of a view.
"""

from __future__ import annotations

from collections.abc import Mapping

from circlet.errors import LimitError
from circlet.formats.onnx.wire import BYTES, VARINT, encoded, read_field, read_varint, tagged

INLINE_BYTES = 1024  # smaller tensors are parsed with everything else
MARK = "\0circlet"  # no path holds a NUL
_DEPTH = 64
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_EXTERNAL = 1

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
    reference = bytearray()  # last: a file may state the usual location behind the elements
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        at, body = read_field(data, at, wire)
        if kind == "tensor" and number == _RAW_DATA and len(body) >= INLINE_BYTES:
            reference = _reference(len(views))
            views.append(body)
        elif wire == BYTES and number in inner:
            content = _rewritten(body, inner[number], views, depth + 1)
            made += tagged(number, content)
        else:
            made += data[start:at]
    return made + reference


def _reference(index: int) -> bytearray:
    """Fields that say that the elements are view number `index`."""
    made = bytearray()
    for key, value in (("location", MARK), ("offset", str(index))):
        entry = tagged(1, key.encode()) + tagged(2, value.encode())
        made += tagged(_EXTERNAL_DATA, entry)
    made += encoded(_DATA_LOCATION << 3 | VARINT) + encoded(_EXTERNAL)
    return made
