"""Constants that TFLite Micro's first form of compression stores as places in tables of values.

A flatbuffer among a model's metadata names the tensors, each of whose buffers then holds places in
a table, and the buffers that hold the tables. Later files hold operators instead:
`circlet.ops.micro_decode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from circlet.errors import FormatError
from circlet.formats.flatbuffer import Reader, Table
from circlet.formats.schema.compression import compression_schema
from circlet.ir import Tensor
from circlet.limits import Limits
from circlet.ops.micro_forms import STORED, BrokenFormError, channels_of, looked_up

ENTRY = "COMPRESSION_METADATA"
_VERSION = 1


class MicroTable(NamedTuple):
    """The bytes of a tensor's table, and the bits of a place in it."""

    values: np.ndarray
    bits: int


def read_micro_tables(
    blob: np.ndarray, buffers: Sequence[np.ndarray], limits: Limits
) -> list[dict[int, MicroTable]]:
    """For each graph the tables of its compressed tensors, by the tensors' places.

    Args:
        blob: The metadata's flatbuffer.
        buffers: All of the file.
        limits: Bounds on reading.

    Raises:
        FormatError: It is damaged, of a later version, or names a buffer that does not exist.
    """
    root = Reader(memoryview(blob.tobytes()), compression_schema(), limits).root("Metadata")
    version = root.integer("schema_version")
    if version > _VERSION:
        raise _broken(ENTRY, f"its version is {version}, known is {_VERSION}")
    return [_tables(graph, buffers) for graph in root.tables("subgraphs")]


def looked_up_bytes(tensor: Tensor, raw: np.ndarray, table: MicroTable, where: str) -> np.ndarray:
    """The bytes of a constant whose places in a table are stored.

    Raises:
        FormatError: Places or values are missing, or the type is none that is stored so.
    """
    if tensor.dtype not in STORED or None in tensor.shape:
        raise _broken(where, f"they are {tensor.dtype.name} of sizes {list(tensor.shape)}")
    try:
        found = looked_up(tensor, raw, table.bits, table.values, channels_of(tensor))
    except BrokenFormError as error:
        raise _broken(where, str(error)) from error
    made = np.ascontiguousarray(found).reshape(-1).view(np.uint8)
    made.flags.writeable = False
    return made


def _tables(graph: Table, buffers: Sequence[np.ndarray]) -> dict[int, MicroTable]:
    found = {}
    for table in graph.tables("lut_tensors"):
        place, tensor = table.integer("value_buffer"), table.integer("tensor")
        if not place < len(buffers):
            raise _broken(f"tensor {tensor}", f"buffer {place} of {len(buffers)}")
        found[tensor] = MicroTable(buffers[place], table.integer("index_bitwidth"))
    return found


def _broken(where: str, why: str) -> FormatError:
    return FormatError("compressed weights cannot be read", where=where, why=why)
