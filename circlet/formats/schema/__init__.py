"""The TFLite and Circle file schemas as declarative tables."""

from __future__ import annotations

from functools import cache

from circlet.formats.schema import circle, enums, tables, tflite
from circlet.formats.schema.spec import EnumSpec, Field, Schema, TableSpec, parse

__all__ = ["EnumSpec", "Field", "Schema", "TableSpec", "by_identifier", "by_name"]

_IDENTIFIERS = {b"TFL3": "tflite", b"CIR0": "circle"}


@cache
def by_name(name: str) -> Schema:
    """The schema called "tflite" or "circle"; KeyError for another name."""
    empty = "\n".join((tables.EMPTY_OPTIONS + circle.EMPTY_OPTIONS * (name == "circle")).split())
    shared = (tables.STRUCTURE, tables.OPTIONS, empty, enums.ENUMS)
    variants = {"tflite": (b"TFL3", 3, tflite.DELTA), "circle": (b"CIR0", 0, circle.DELTA)}
    identifier, version, delta = variants[name]
    return parse(name, identifier, version, (*shared, delta))


def by_identifier(identifier: bytes) -> Schema | None:
    """The schema of a file whose bytes 4 to 8 are `identifier`, or None."""
    name = _IDENTIFIERS.get(identifier)
    return by_name(name) if name else None
