"""ONE's metadata buffers that say which source operators each operator descends from.

Both are little-endian uint32 records. `ONE_source_table`: a count, then per entry id, length of
the name with its NUL, the name, NUL. `ONE_op_table`: a count, then per entry the operator's index
in this file, a count of sources, their ids.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from circlet.errors import FormatError
from circlet.ir import Graph, Op, Origin, SourceOp, Tensor
from circlet.ir.origin import free_id

SOURCE_TABLE = "ONE_source_table"
OP_TABLE = "ONE_op_table"


class _Cursor:
    """Reads uint32 values and byte runs from one table, which it must use up."""

    def __init__(self, data: np.ndarray, table: str) -> None:
        self.data, self.table, self.at = data.tobytes(), table, 0

    def take(self, count_bytes: int) -> bytes:
        if self.at + count_bytes > len(self.data):
            raise self.damaged(f"it ends inside of an entry, at byte {len(self.data)}")
        self.at += count_bytes
        return self.data[self.at - count_bytes : self.at]

    def u32(self, count: int = 1) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.take(4 * count))

    def finish(self) -> None:
        if self.at != len(self.data):
            raise self.damaged(f"{len(self.data) - self.at} bytes follow its last entry")

    def damaged(self, why: str) -> FormatError:
        return FormatError("a table of operator origins is damaged", where=self.table, why=why)


def read_sources(data: np.ndarray) -> dict[int, SourceOp]:
    """The source operators by id."""
    cursor = _Cursor(data, SOURCE_TABLE)
    sources: dict[int, SourceOp] = {}
    for _ in range(cursor.u32()[0]):
        source, length = cursor.u32(2)
        name = cursor.take(length)
        if not name.endswith(b"\0"):
            raise cursor.damaged(f"the name of source {source} does not end with NUL")
        if source in sources:
            raise cursor.damaged(f"source {source} appears twice")
        sources[source] = SourceOp(source, name[:-1].decode("utf-8", "backslashreplace"))
    cursor.finish()
    return sources


def read_origins(data: np.ndarray, sources: dict[int, SourceOp]) -> dict[int, Origin]:
    """The origin of each operator of the file, by its index."""
    cursor = _Cursor(data, OP_TABLE)
    origins: dict[int, Origin] = {}
    for _ in range(cursor.u32()[0]):
        op, count = cursor.u32(2)
        members = cursor.u32(count)
        missing = [member for member in members if member not in sources]
        if missing or not members:
            raise cursor.damaged(f"operator {op} has unknown sources {missing}")
        if op in origins:
            raise cursor.damaged(f"operator {op} appears twice")
        origins[op] = Origin.union([Origin((sources[member],)) for member in members])
    cursor.finish()
    return origins


def write_sources(ops: Sequence[Op]) -> bytes:
    """The source table of all operators of a model."""
    numbers = _numbers(ops)
    parts = [struct.pack("<I", len(numbers))]
    for source, number in sorted(numbers.items(), key=lambda item: item[1]):
        name = source.name.encode("utf-8", "backslashreplace") + b"\0"
        parts.append(struct.pack("<II", number, len(name)) + name)
    return b"".join(parts)


def write_origins(ops: Sequence[Op]) -> bytes:
    """The operator table of all operators of a model, numbered as they are written."""
    numbers = _numbers(ops)
    parts = [struct.pack("<I", len(ops))]
    for index, op in enumerate(ops):
        ids = sorted({numbers[source] for source in op.origin.sources})
        parts.append(struct.pack(f"<{2 + len(ids)}I", index, len(ids), *ids))
    return b"".join(parts)


def _numbers(ops: Sequence[Op]) -> dict[SourceOp, int]:
    """The id of each source: its own, or a free one where another source has that already.

    Sources of one id are met where networks of several files were put together.
    """
    sources = sorted({source for op in ops for source in op.origin.sources})
    numbers, free = dict[SourceOp, int](), free_id(op.origin for op in ops)
    taken: set[int] = set()
    for source in sources:
        if source.id in taken:
            numbers[source], free = free, free + 1
        else:
            numbers[source] = source.id
            taken.add(source.id)
    return numbers


def says_more(graphs: Iterable[Graph]) -> bool:
    """Whether the tables say anything that a reader of the file would not say without them."""
    ops = (op for graph in graphs for op in graph.ops)
    return any(
        op.origin != Origin.of(number, own_name(op.kind, op.outputs, number))
        for number, op in enumerate(ops)
    )


def own_name(kind: str, outputs: Sequence[Tensor], number: int) -> str:
    """The name of an operator of a file that has no names of operators: its first output's."""
    return (outputs[0].name if outputs else "") or f"{kind}_{number}"
