"""Schema tables as data: table -> fields with slot, type and default; enums; unions.

The notation, one entry per line (an indented line continues the one before):

    Table field:type=default ...     slots count up from 0; a union takes two
    Enum:base NAME NAME=value ...    values count up from 0 or from the last one given
    extend ...                       adds to an entry that exists

A type is a scalar (int32, bool, float32 ...), `string`, a table, an enum, or one of these in
brackets for a vector. An enum whose names are tables is a union.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from circlet.cached import cached_property

SCALAR_CODES = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}

Scalar = bool | int | float


@dataclass(frozen=True)
class EnumSpec:
    """An enumeration: its storage type and both directions of its names."""

    name: str
    base: str
    values: dict[str, int] = field(hash=False)

    @cached_property
    def names(self) -> dict[int, str]:
        """Name of each value."""
        return {value: name for name, value in self.values.items()}


@dataclass(frozen=True)
class Field:
    """One field of a table.

    Attributes:
        name: The schema's name.
        slot: Position in the vtable; for a union, of its value (its tag is one before).
        kind: "scalar", "string", "table", "union", or "vector".
        type: Scalar, table or union name; for a vector, of its elements.
        element: Kind of a vector's elements.
        default: Value of an absent scalar, as stored.
        enum: Enumeration of a scalar or of a vector's elements.
    """

    name: str
    slot: int
    kind: str
    type: str
    element: str = ""
    default: Scalar = 0
    enum: EnumSpec | None = None

    @cached_property
    def packer(self) -> struct.Struct:
        """Codec of one scalar (or of one scalar element)."""
        return struct.Struct("<" + SCALAR_CODES[self.type])

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """Element type of a scalar vector."""
        return np.dtype(self.type).newbyteorder("<")

    @property
    def inline_bytes(self) -> int:
        """Bytes that the field takes inside its table: the scalar, or an offset."""
        return self.packer.size if self.kind == "scalar" else 4


@dataclass(frozen=True)
class TableSpec:
    """One table: its fields by name."""

    name: str
    fields: dict[str, Field] = field(hash=False)

    @cached_property
    def slot_count(self) -> int:
        """Number of vtable slots that the schema knows."""
        return max((f.slot for f in self.fields.values()), default=-1) + 1


@dataclass(frozen=True)
class Schema:
    """One file format: its tables, enums and unions.

    Attributes:
        name: "tflite" or "circle"; also the file name's extension.
        identifier: The four bytes at offset 4 of a file.
        version: Value of `Model.version` in new files.
        version: Value of `Model.version` that is written.
    """

    name: str
    identifier: bytes
    version: int
    tables: dict[str, TableSpec] = field(hash=False)
    enums: dict[str, EnumSpec] = field(hash=False)


def parse(name: str, identifier: bytes, version: int, texts: tuple[str, ...]) -> Schema:
    """Build a schema from texts in the notation of this module."""
    enums: dict[str, EnumSpec] = {}
    columns: dict[str, list[str]] = {}
    for head, words in _entries("\n".join(texts)):
        enum_name, _, base = head.partition(":")
        if base:
            known = enums.get(enum_name, EnumSpec(enum_name, base, {}))
            enums[enum_name] = EnumSpec(enum_name, base, known.values | _enum_values(words))
        else:
            columns[head] = columns.get(head, []) + words
    tables = {table: _table(table, words, enums, columns) for table, words in columns.items()}
    return Schema(name, identifier, version, tables, enums)


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.replace("\n    ", " ").split("\n"):
        words = line.removeprefix("extend ").split()
        if words:
            yield words[0], words[1:]


def _enum_values(words: list[str]) -> dict[str, int]:
    values: dict[str, int] = {}
    last = -1
    for word in words:
        name, _, value = word.partition("=")
        last = int(value) if value else last + 1
        values[name] = last
    return values


def _table(
    name: str, words: list[str], enums: dict[str, EnumSpec], tables: dict[str, list[str]]
) -> TableSpec:
    fields: dict[str, Field] = {}
    slot = 0
    for word in words:
        made = _field(word, slot, enums, tables)
        fields[made.name] = made
        slot = made.slot + 1
    return TableSpec(name, fields)


def _field(word: str, slot: int, enums: dict[str, EnumSpec], tables: dict[str, list[str]]) -> Field:
    declaration, _, default = word.partition("=")
    name, _, type_name = declaration.partition(":")
    inner = type_name.strip("[]")
    enum = enums.get(inner)
    kind = "scalar" if inner in SCALAR_CODES or enum else "string" if inner == "string" else "table"
    if enum and any(member in tables for member in enum.values):
        return Field(name, slot + 1, "union", inner, enum=enum)
    stored = enum.base if enum else inner
    if inner != type_name:
        return Field(name, slot, "vector", stored, element=kind, enum=enum)
    return Field(name, slot, kind, stored, default=_default(stored, default, enum), enum=enum)


def _default(stored: str, text: str, enum: EnumSpec | None) -> Scalar:
    if not text:
        return False if stored == "bool" else 0.0 if stored.startswith("float") else 0
    if enum:
        return enum.values[text]
    return text == "true" if stored == "bool" else int(text)
