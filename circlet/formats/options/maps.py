"""Options that are FlexBuffers maps, as attributes of operators, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from circlet.errors import FormatError
from circlet.formats.flexbuffer import flexbuffer
from circlet.formats.flexbuffer_writer import flexbuffer_map
from circlet.formats.schema import by_name
from circlet.ir import Op
from circlet.ops.operands import operand

Attrs = TypeVar("Attrs")


def decode_map(kind: type[Attrs]) -> Callable[[bytes], Attrs]:
    """A function that reads the attributes of a class: entries of the same name.

    What a map does not have keeps the default of the class, and so does all where there are no
    bytes. The function raises FormatError where bytes are no map, or a value has another type.
    """
    return lambda data: kind(**_values(kind, read_options(data)))


def encode_map(op: Op) -> bytes:
    """The option bytes that say what an op's attributes say."""
    return flexbuffer_map(vars(op.attrs))


def encode_typed_map(op: Op) -> bytes:
    """As `encode_map`, with the number that TFLite has for the type of the first input."""
    number = by_name("tflite").enums["TensorType"].values[operand(op, 0).dtype.name]
    return flexbuffer_map({"T": number, **vars(op.attrs)})


def read_options(data: bytes) -> Mapping[str, object]:
    """The entries of a map, none for no bytes; FormatError where bytes are no map."""
    value = flexbuffer(data)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError("custom options are damaged", why="the root is no map")
    return value


def _values(kind: type, entries: Mapping[str, object]) -> dict[str, object]:
    return {
        field.name: _typed(entries[field.name], field.default, field.name)
        for field in fields(kind)
        if field.name in entries
    }


def _typed(value: object, default: object, name: str) -> object:
    """A value as the type of its default; whole numbers do for bits and for real numbers."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(_typed(element, 0, name) for element in value)
    if isinstance(default, float) and isinstance(value, int | float):
        return float(value)
    if isinstance(default, bool) and isinstance(value, bool | int):
        return bool(value)
    if isinstance(default, int) and isinstance(value, int):
        return int(value)
    if isinstance(default, str) and isinstance(value, str):
        return value
    raise FormatError("a custom option has another type than it needs", where=name, why=repr(value))
