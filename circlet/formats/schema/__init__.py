"""The TFLite and Circle file schemas as declarative tables."""

from __future__ import annotations

from functools import cache

from circlet.formats.schema import circle, enums, tables, tflite
from circlet.formats.schema.spec import EnumSpec, Field, Schema, TableSpec, parse

__all__ = ["IDENTIFIERS", "EnumSpec", "Field", "Schema", "TableSpec", "by_identifier", "by_name"]

# What stands in bytes 4 to 8 of files.
IDENTIFIERS = {"tflite": b"TFL3", "circle": b"CIR0"}


@cache
def by_name(name: str) -> Schema:
    """The schema called "tflite" or "circle"; KeyError for another name."""
    empty = "\n".join((tables.EMPTY_OPTIONS + circle.EMPTY_OPTIONS * (name == "circle")).split())
    shared = (tables.STRUCTURE, tables.OPTIONS, empty, enums.ENUMS)
    variants = {"tflite": (3, tflite.DELTA), "circle": (0, circle.DELTA)}
    version, delta = variants[name]
    return parse(name, IDENTIFIERS[name], version, (*shared, delta))


def by_identifier(identifier: bytes) -> Schema | None:
    """The schema of a file whose bytes 4 to 8 are `identifier`, or None."""
    names = (name for name, known in IDENTIFIERS.items() if known == identifier)
    name = next(names, None)
    return by_name(name) if name else None
