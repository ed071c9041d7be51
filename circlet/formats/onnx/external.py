"""The files that an .onnx file names as the places of elements of its tensors.

On the path of cached starts, so it imports little.
"""

from __future__ import annotations

from pathlib import Path

from circlet.errors import LimitError
from circlet.formats.onnx.edit import external_entries
from circlet.formats.onnx.wire import fields

_DEPTH = 64
_LOCATION = 13
# Messages that hold tensors, by the numbers of their fields in onnx.proto.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
}


def external_names(data: memoryview) -> tuple[str, ...]:
    """The names as they are stored, sorted.

    Raises:
        FormatError: The bytes are no protocol buffer.
        LimitError: Graphs are nested too deeply.
    """
    found: set[str] = set()
    _collect(data, "model", found, 0)
    return tuple(sorted(found))


def _collect(data: memoryview, kind: str, found: set[str], depth: int) -> None:
    if depth > _DEPTH:
        raise LimitError("graphs are nested too deeply", why=f"the limit is {_DEPTH} messages")
    inner = _FIELDS.get(kind, {})
    for number, _, body, _ in fields(data):
        if kind == "tensor" and number == _LOCATION:
            found.add(external_entries(data).get("location", ""))
            return
        if number in inner:
            _collect(body, inner[number], found, depth + 1)


def external_path(folder: Path, location: str) -> Path | None:
    """The file of a name beside a model; None where that is outside of the model's folder."""
    home = folder.resolve()
    path = home if "\0" in location else (home / location).resolve()
    if Path(location).is_absolute() or path == home or not path.is_relative_to(home):
        return None
    return path
