"""A bounds-checked, lazy flatbuffer reader over schema tables.

Nothing is read before it is asked for. Every offset, vtable, vector and string is checked against
the file, and everything visited is charged to a budget, so time is bounded by the file's size
however its offsets overlap. Scalar vectors come back as read-only views into the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, unpack_from

import numpy as np

from circlet.errors import FormatError, LimitError
from circlet.formats.schema import Field, Schema, TableSpec
from circlet.limits import DEFAULT_LIMITS, Limits

_U32 = Struct("<I").unpack_from
_I32 = Struct("<i").unpack_from
_U16_PAIR = Struct("<HH").unpack_from
_HEADER_BYTES = 8

Value = bool | int | float | str | tuple["Value", ...] | dict[str, "Value"] | None


class Reader:
    """One flatbuffer and the budget that is left for reading it.

    `defaults` remembers the values of missing options tables by name.
    """

    def __init__(self, data: memoryview, schema: Schema, limits: Limits = DEFAULT_LIMITS) -> None:
        self.data = data
        self.size = len(data)
        self.schema = schema
        self.limits = limits
        self.tables_left = limits.tables
        self.bytes_left = limits.visited_bytes(self.size)
        self.defaults: dict[str, dict[str, Value]] = {}

    def root(self, table: str) -> Table:
        """The file's root table."""
        if self.size < _HEADER_BYTES:
            raise FormatError("the file ends before its header", why=f"{self.size} bytes")
        return self.table(self.schema.tables[table], _U32(self.data, 0)[0], "root")

    def table(self, spec: TableSpec, position: int, where: str) -> Table:
        """The table at a position, its vtable checked."""
        if not 0 < position <= self.size - 4:
            raise self.outside(where, position)
        vtable = position - _I32(self.data, position)[0]
        if not 0 <= vtable <= self.size - 4:
            raise self.outside(f"vtable of {where}", vtable)
        vtable_bytes, table_bytes = _U16_PAIR(self.data, vtable)
        if vtable_bytes < 4 or vtable_bytes % 2 or vtable + vtable_bytes > self.size:
            raise self.outside(f"vtable of {where}", vtable + vtable_bytes)
        if table_bytes < 4 or position + table_bytes > self.size:
            raise self.outside(where, position + table_bytes)
        self.charge(vtable_bytes + table_bytes, where)
        self.tables_left -= 1
        if self.tables_left < 0:
            raise LimitError(
                "the file has too many tables", where=where, why=f"limit {self.limits.tables}"
            )
        count = vtable_bytes // 2 - 2
        slots: tuple[int, ...] = unpack_from(f"<{count}H", self.data, vtable + 4)
        if count > spec.slot_count and any(slots[spec.slot_count :]):
            raise FormatError(
                f"{spec.name} has a field that the {self.schema.name} schema does not know",
                where=where,
                why=f"slot {max(i for i, offset in enumerate(slots) if offset)} is set",
                fix="the file was made for a newer schema",
            )
        return Table(self, spec, position, table_bytes, slots)

    def charge(self, count_bytes: int, where: str) -> None:
        """Pay for visiting bytes of the file."""
        self.bytes_left -= count_bytes
        if self.bytes_left < 0:
            raise LimitError(
                "the file's parts overlap so much that reading it would take too long",
                where=where,
                why=f"more than {self.limits.visits_per_byte} visits per byte of the file",
            )

    def outside(self, where: str, position: int) -> FormatError:
        """The error for a part that does not lie inside the file."""
        return FormatError(
            "the file is damaged: a part lies outside of it",
            where=where,
            why=f"byte {position} of {self.size}",
            fix="copy or export the model again; it may be truncated",
        )

    def span(self, position: int, count_bytes: int, where: str) -> np.ndarray:
        """Raw bytes anywhere in the file, as a read-only view."""
        if position < 0 or count_bytes < 0 or position + count_bytes > self.size:
            raise self.outside(where, position + count_bytes)
        return np.frombuffer(self.data, np.uint8, count_bytes, position)


class Table:
    """One table of the file; fields are read when asked for."""

    __slots__ = ("file", "position", "slots", "spec", "table_bytes")

    def __init__(
        self, file: Reader, spec: TableSpec, position: int, size: int, slots: tuple[int, ...]
    ) -> None:
        self.file, self.spec, self.position = file, spec, position
        self.table_bytes, self.slots = size, slots

    def has(self, name: str) -> bool:
        """Whether the field is stored."""
        slot = self.spec.fields[name].slot
        return slot < len(self.slots) and self.slots[slot] != 0

    def scalar(self, name: str) -> int | float | bool:
        """Value of a scalar field, its default where absent."""
        field = self.spec.fields[name]
        # Most scalars are absent, so that case is kept short.
        if field.slot >= len(self.slots) or not self.slots[field.slot]:
            return field.default
        at = self._at(field.slot, field.packer.size, name)
        value: int | float | bool = field.packer.unpack_from(self.file.data, at)[0]
        return value

    def integer(self, name: str) -> int:
        """Value of an integer field."""
        return int(self.scalar(name))

    def enum(self, name: str, where: str = "") -> str:
        """Name of an enum field's value; FormatError for a value that the schema lacks."""
        field = self.spec.fields[name]
        return self._enum_name(field, self.integer(name), where)

    def text(self, name: str) -> str:
        """Value of a string field, "" where absent."""
        at = self._target(self.spec.fields[name].slot, name)
        return self._string(at, name) if at else ""

    def table(self, name: str) -> Table | None:
        """Value of a table field."""
        field = self.spec.fields[name]
        at = self._target(field.slot, name)
        return self._child(field.type, at, name) if at else None

    def union(self, name: str) -> Table | None:
        """Value of a union field; the table's `spec` says which member."""
        field = self.spec.fields[name]
        tag_at = self._at(field.slot - 1, 1, name)
        at = self._target(field.slot, name)
        if not at or not tag_at or not self.file.data[tag_at]:
            return None
        assert field.enum is not None
        return self._child(self._enum_name(field, self.file.data[tag_at], ""), at, name)

    def array(self, name: str) -> np.ndarray:
        """Elements of a scalar vector as a read-only view; empty where absent."""
        field = self.spec.fields[name]
        at, count = self._vector(field, field.numpy.itemsize)
        self.file.charge(count * field.numpy.itemsize, self._where(name))
        return np.frombuffer(self.file.data, field.numpy, count, at)

    def blob(self, name: str) -> np.ndarray:
        """Bytes of a uint8 vector, not charged to the budget because nobody walks over them."""
        at, count = self._vector(self.spec.fields[name], 1, bounded=False)
        return np.frombuffer(self.file.data, np.uint8, count, at)

    def ints(self, name: str) -> list[int]:
        """Elements of a short integer vector."""
        field = self.spec.fields[name]
        at, count = self._vector(field, field.numpy.itemsize)
        self.file.charge(count * field.numpy.itemsize, name)
        code = field.packer.format[-1]
        return list(unpack_from(f"<{count}{code}", self.file.data, at))

    def tables(self, name: str) -> Iterator[Table]:
        """Elements of a table vector, each checked when its turn comes."""
        field = self.spec.fields[name]
        spec = self.file.schema.tables[field.type]
        for at in self._offsets(field):
            yield self.file.table(spec, at, spec.name)

    def count(self, name: str) -> int:
        """Number of elements of a vector of tables or strings."""
        return self._vector(self.spec.fields[name], 4)[1]

    def unpack(self, where: str = "") -> dict[str, Value]:
        """All fields as plain values, defaults included, enums by name."""
        return {field.name: self.value(field, where) for field in self.spec.fields.values()}

    def value(self, field: Field, where: str = "") -> Value:
        """One field as a plain value; a union as its member's name under "table" beside it."""
        if field.kind == "scalar":
            return self.enum(field.name, where) if field.enum else self.scalar(field.name)
        if field.kind == "string":
            return self.text(field.name)
        if field.kind == "vector":
            return tuple(self._elements(field, where))
        if field.kind == "union":
            member = self.union(field.name)
            return {"table": member.spec.name, **member.unpack(where)} if member else None
        child = self.table(field.name)
        return child.unpack(where) if child else None

    def _elements(self, field: Field, where: str) -> Iterator[Value]:
        if field.element == "table":
            return (table.unpack(where) for table in self.tables(field.name))
        if field.element == "string":
            return (self._string(at, field.name) for at in self._offsets(field))
        numbers: list[int | float] = self.array(field.name).tolist()
        if field.enum:
            return (self._enum_name(field, int(number), where) for number in numbers)
        return iter(numbers)

    def _offsets(self, field: Field) -> Iterator[int]:
        at, count = self._vector(field, 4)
        self.file.charge(4 * count, self._where(field.name))
        for place in range(at, at + 4 * count, 4):
            yield place + _U32(self.file.data, place)[0]

    def _vector(self, field: Field, element_bytes: int, bounded: bool = True) -> tuple[int, int]:
        """(position of the first element, number of elements); (0, 0) where absent."""
        at = self._target(field.slot, field.name)
        if not at:
            return 0, 0
        count: int = _U32(self.file.data, at)[0]
        if at + 4 + count * element_bytes > self.file.size:
            raise self.file.outside(self._where(field.name), at + 4 + count * element_bytes)
        if bounded and count > self.file.limits.vector_elements:
            raise LimitError("a vector is too long", where=self._where(field.name), why=f"{count}")
        return at + 4, count

    def _string(self, at: int, name: str) -> str:
        if at > self.file.size - 4:
            raise self.file.outside(self._where(name), at)
        length: int = _U32(self.file.data, at)[0]
        if at + 4 + length > self.file.size:
            raise self.file.outside(self._where(name), at + 4 + length)
        if length > self.file.limits.string_bytes:
            raise LimitError("a text is too long", where=self._where(name), why=f"{length} bytes")
        self.file.charge(4 + length, name)
        try:
            return str(self.file.data[at + 4 : at + 4 + length], "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(
                "a text is not UTF-8", where=self._where(name), why=str(error)
            ) from None

    def _child(self, spec_name: str, at: int, name: str) -> Table:
        return self.file.table(self.file.schema.tables[spec_name], at, self._where(name))

    def _enum_name(self, field: Field, value: int, where: str) -> str:
        assert field.enum is not None
        known = field.enum.names.get(value)
        if known is None:
            raise FormatError(
                f"{self.spec.name}.{field.name} has a value that {field.enum.name} lacks",
                where=where or self._where(field.name),
                why=f"{value} is not among {', '.join(list(field.enum.values)[:8])} ...",
            )
        return known

    def _at(self, slot: int, count_bytes: int, name: str) -> int:
        """Position of a stored field, 0 where absent."""
        offset = self.slots[slot] if slot < len(self.slots) else 0
        if offset and not 4 <= offset <= self.table_bytes - count_bytes:
            raise self.file.outside(self._where(name), self.position + offset)
        return self.position + offset if offset else 0

    def _target(self, slot: int, name: str) -> int:
        """Position that a stored offset points to, 0 where absent."""
        if slot >= len(self.slots) or not self.slots[slot]:
            return 0
        at = self._at(slot, 4, name)
        target: int = at + _U32(self.file.data, at)[0]
        if not at < target <= self.file.size - 4:
            raise self.file.outside(self._where(name), target)
        return target

    def _where(self, name: str) -> str:
        return f"{self.spec.name}.{name} at byte {self.position}"
