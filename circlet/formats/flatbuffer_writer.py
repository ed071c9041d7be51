"""A flatbuffer writer over schema tables, the inverse of `Table.unpack`.

Tables are written front to back: a table, then what it refers to. Equal vtables are shared.
Weights start at multiples of 16 bytes. Data that must lie outside of the flatbuffer (its offsets
reach 2 GiB only) follows it and is referred to by an offset from the start of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import FormatError
from circlet.formats.schema import Field, Schema, TableSpec

WEIGHT_ALIGNMENT = 16
FLATBUFFER_BYTES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Outside:
    """Bytes that follow the flatbuffer; stands for their offset in a uint64 field."""

    data: np.ndarray


class Writer:
    """Builds one file of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.out = bytearray(struct.pack("<I4s", 0, schema.identifier))
        self.vtables: dict[bytes, int] = {}
        self.outside: list[tuple[int, Outside]] = []

    def finish(self, root: str, values: Mapping[str, object]) -> bytearray:
        """The whole file, its root table holding these values."""
        self._refer(0, self._table(self.schema.tables[root], values))
        self._pad(WEIGHT_ALIGNMENT)
        if len(self.out) > FLATBUFFER_BYTES:
            raise FormatError("the model's structure does not fit into 2 GiB", where=root)
        for at, blob in self.outside:
            struct.pack_into("<Q", self.out, at, len(self.out))
            self.out += np.ascontiguousarray(blob.data).data.cast("B")
            self._pad(WEIGHT_ALIGNMENT)
        return self.out

    def _table(self, spec: TableSpec, values: Mapping[str, object]) -> int:
        stored = self._stored_fields(spec, values)
        offsets, table_bytes = _layout(stored)
        vtable = self._vtable(offsets, table_bytes)
        wide = any(field.inline_bytes == 8 for field, _ in stored)
        self._pad(8, 4) if wide else self._pad(4)
        start = len(self.out)
        self.out += bytes(table_bytes)
        struct.pack_into("<i", self.out, start, start - vtable)
        for field, value in stored:
            self._put(spec, field, value, start, offsets)
        return start

    def _stored_fields(
        self, spec: TableSpec, values: Mapping[str, object]
    ) -> list[tuple[Field, object]]:
        unknown = [name for name in values if name not in spec.fields]
        if unknown:
            raise self._refusal(spec, unknown[0], "the table has no such field")
        pairs = ((field, values.get(name)) for name, field in spec.fields.items())
        coded = [
            (field, self._code(spec, field, value)) for field, value in pairs if value is not None
        ]
        return [(f, value) for f, value in coded if f.kind != "scalar" or value != f.default]

    def _code(self, spec: TableSpec, field: Field, value: object) -> object:
        """A scalar enum's number; any other value unchanged."""
        if field.kind != "scalar" or field.enum is None:
            return value
        return self._enum_value(spec, field, str(value))

    def _enum_value(self, spec: TableSpec, field: Field, name: str) -> int:
        assert field.enum is not None
        if name not in field.enum.values:
            raise self._refusal(spec, field.name, f"{field.enum.name} has no {name}")
        return field.enum.values[name]

    def _refusal(self, spec: TableSpec, name: str, why: str) -> FormatError:
        return FormatError(
            f"{spec.name}.{name} cannot be stored in a .{self.schema.name} file", why=why
        )

    def _vtable(self, offsets: dict[int, int], table_bytes: int) -> int:
        slots = [offsets.get(slot, 0) for slot in range(max(offsets, default=-1) + 1)]
        encoded = struct.pack(f"<{len(slots) + 2}H", 4 + 2 * len(slots), table_bytes, *slots)
        if encoded not in self.vtables:
            self._pad(2)
            self.vtables[encoded] = len(self.out)
            self.out += encoded
        return self.vtables[encoded]

    def _put(
        self, spec: TableSpec, field: Field, value: object, start: int, offsets: dict[int, int]
    ) -> None:
        at = start + offsets[field.slot]
        if field.kind == "scalar":
            self._put_scalar(spec, field, value, at)
        elif field.kind == "string":
            self._refer(at, self._string(str(value)))
        elif field.kind == "vector":
            self._refer(at, self._vector(spec, field, value))
        elif field.kind == "union":
            self._put_union(spec, field, value, at, start + offsets[field.slot - 1])
        else:
            self._refer(at, self._table(self.schema.tables[field.type], _mapping(value)))

    def _put_scalar(self, spec: TableSpec, field: Field, value: object, at: int) -> None:
        if isinstance(value, Outside):
            self.outside.append((at, value))
            return
        try:
            field.packer.pack_into(self.out, at, value)
        except struct.error as error:
            raise self._refusal(spec, field.name, f"{value!r}: {error}") from None

    def _put_union(
        self, spec: TableSpec, field: Field, value: object, at: int, tag_at: int
    ) -> None:
        members = dict(_mapping(value))
        name = str(members.pop("table"))
        self.out[tag_at] = self._enum_value(spec, field, name)
        self._refer(at, self._table(self.schema.tables[name], members))

    def _vector(self, spec: TableSpec, field: Field, value: object) -> int:
        if field.element == "scalar":
            return self._scalars(spec, field, value)
        items = list(value) if isinstance(value, Sequence) else []
        self._pad(4)
        start = len(self.out)
        self.out += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for index, item in enumerate(items):
            target = (
                self._string(str(item))
                if field.element == "string"
                else self._table(self.schema.tables[field.type], _mapping(item))
            )
            self._refer(start + 4 + 4 * index, target)
        return start

    def _scalars(self, spec: TableSpec, field: Field, value: object) -> int:
        if field.enum is not None and isinstance(value, Sequence):
            value = [self._enum_value(spec, field, str(name)) for name in value]
        if isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        try:
            array = np.ascontiguousarray(np.asarray(value, field.numpy)).reshape(-1)
        except OverflowError as error:
            raise self._refusal(spec, field.name, str(error)) from None
        alignment = WEIGHT_ALIGNMENT if spec.name == "Buffer" else max(4, array.itemsize)
        self._pad(alignment, alignment - 4)
        start = len(self.out)
        self.out += struct.pack("<I", array.size)
        self.out += array.data.cast("B") if array.size else b""
        return start

    def _string(self, text: str) -> int:
        encoded = text.encode("utf-8")
        self._pad(4)
        start = len(self.out)
        self.out += struct.pack("<I", len(encoded)) + encoded + b"\0"
        return start

    def _pad(self, alignment: int, remainder: int = 0) -> None:
        """Fill until the length is `remainder` more than a multiple of `alignment`."""
        self.out += bytes((remainder - len(self.out)) % alignment)

    def _refer(self, at: int, target: int) -> None:
        struct.pack_into("<I", self.out, at, target - at)


def _layout(stored: list[tuple[Field, object]]) -> tuple[dict[int, int], int]:
    """Offset of each slot inside the table, widest fields first, and the table's size."""
    offsets: dict[int, int] = {}
    end = 4
    for field, _ in sorted(stored, key=lambda pair: -pair[0].inline_bytes):
        offsets[field.slot] = end
        end += field.inline_bytes
    for field, _ in stored:
        if field.kind == "union":
            offsets[field.slot - 1] = end
            end += 1
    return offsets, end


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
