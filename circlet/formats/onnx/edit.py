"""The bytes of an .onnx file with other constants, or other sizes of inputs.

Whatever is not changed is copied as it is. On the path of cached starts of `InferenceSession`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from circlet.errors import FormatError
from circlet.formats.onnx.header import tensor_name
from circlet.formats.onnx.wire import VARINT, encoded, fields, tagged

_GRAPH, _INITIALIZER, _INPUT = 7, 5, 11
_RAW, _LOCATION = 9, 13


def edited(
    data: memoryview,
    *,
    values: Mapping[str, bytes],
    without: Collection[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> bytes:
    """A model with changes to its main graph.

    Args:
        values: Constants that take the place of those of the same names, as `constant` makes them.
        without: Constants to leave out: the inputs of these names must be given then.
        shapes: Sizes of inputs.

    Raises:
        FormatError: The bytes are no protocol buffer.
    """
    made = bytearray()
    for number, _, body, whole in fields(data):
        if number == _GRAPH:
            made += tagged(_GRAPH, _graph(body, values, without, shapes or {}))
        else:
            made += whole
    return bytes(made)


def _graph(
    data: memoryview,
    values: Mapping[str, bytes],
    without: Collection[str],
    shapes: Mapping[str, tuple[int, ...]],
) -> bytearray:
    made = bytearray()
    for number, _, body, whole in fields(data):
        if number == _INITIALIZER:
            name = tensor_name(body)
            if name in values:
                made += tagged(_INITIALIZER, values[name])
            elif name not in without:
                made += whole
        elif number == _INPUT and shapes:
            made += _input(body, shapes) or whole
        else:
            made += whole
    return made


def _input(data: memoryview, shapes: Mapping[str, tuple[int, ...]]) -> bytearray | None:
    """An input with the sizes of its name; None where there are none for it."""
    parts = {number: body for number, _, body, _ in fields(data)}
    name = str(parts.get(1, b""), "utf-8", "replace")
    if name not in shapes or 2 not in parts:
        return None
    tensor = next((body for key, _, body, _ in fields(parts[2]) if key == 1), None)
    if tensor is None:
        return None
    element = next((value for key, value, _, _ in fields(tensor) if key == 1), 0)
    dims = b"".join(tagged(1, _number(1, size)) for size in shapes[name])
    stated = _number(1, element) + tagged(2, dims)
    return tagged(_INPUT, tagged(1, name.encode()) + tagged(2, tagged(1, stated)))


def constant(name: str, element: int, shape: tuple[int, ...], raw: bytes) -> bytes:
    """A TensorProto of elements of a type, by its number, in little-endian order."""
    dims = b"".join(_number(1, size) for size in shape)
    return bytes(dims + _number(2, element) + tagged(8, name.encode()) + tagged(_RAW, raw))


def from_files(data: memoryview, files: Mapping[str, memoryview]) -> dict[str, bytes]:
    """The constants that name one of these files as the place of their elements, with them.

    Raises:
        FormatError: A place lies outside of its file.
    """
    found: dict[str, bytes] = {}
    graphs = (body for number, _, body, _ in fields(data) if number == _GRAPH)
    tensors = (body for graph in graphs for key, _, body, _ in fields(graph) if key == _INITIALIZER)
    for tensor in tensors:
        entries = external_entries(tensor)
        file = files.get(entries.get("location", ""))
        if file is not None:
            found[tensor_name(tensor)] = _embedded(tensor, entries, file)
    return found


def external_entries(tensor: memoryview) -> dict[str, str]:
    """Where a TensorProto says that its elements are: "location", "offset", "length"."""
    entries: dict[str, str] = {}
    for number, _, body, _ in fields(tensor):
        if number == _LOCATION:
            parts = {key: str(text, "utf-8", "replace") for key, _, text, _ in fields(body)}
            entries[parts.get(1, "")] = parts.get(2, "")
    return entries


def _embedded(tensor: memoryview, entries: Mapping[str, str], file: memoryview) -> bytes:
    name, dims, element = tensor_name(tensor), [], 0
    for number, value, _, _ in fields(tensor):
        if number == 1:
            dims.append(value)
        elif number == 2:
            element = value
    try:
        start = int(entries.get("offset", "0"))
        end = start + int(entries["length"]) if "length" in entries else len(file)
    except ValueError:
        raise FormatError("a place in external data is no number", where=name) from None
    if not 0 <= start <= end <= len(file):
        why = f"bytes {start} to {end} of {len(file)}"
        raise FormatError("a tensor's external data ends too early", where=name, why=why)
    count = prod(dims)
    room = (end - start) // count * count if count else 0
    return constant(name, element, tuple(dims), bytes(file[start : start + room]))


def _number(number: int, value: int) -> bytearray:
    return encoded(number << 3 | VARINT) + encoded(value)
