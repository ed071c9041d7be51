"""Tensors and their bytes: `circlet.ir.Tensor` to table values and a pool of buffers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.errors import FormatError
from circlet.formats.flatbuffer_writer import Outside
from circlet.formats.huffman import COMPRESSION, huffman_encoded, is_compressible
from circlet.formats.schema import Schema
from circlet.ir import OpaqueQuant, Quantization, Tensor
from circlet.ir.quant import BlockwiseQuant, QuantDetails

Values = dict[str, object]
_OUTSIDE_BYTES = 1024


class BufferPool:
    """The file's buffers; equal storage is written once, buffer 0 is the empty one.

    With `outside`, all but small buffers follow the flatbuffer instead of lying in it.
    """

    def __init__(self, outside: bool = False) -> None:
        self.outside = outside
        self.buffers: list[Values] = [{}]
        self._kept: list[np.ndarray] = []
        self._known: dict[tuple[int, int], int] = {}

    def add(self, array: np.ndarray) -> int:
        """Index of the buffer that holds these bytes."""
        if array.nbytes == 0:
            return 0
        raw = raw_bytes(array)
        key = (raw.__array_interface__["data"][0], raw.nbytes)
        if key not in self._known:
            # Kept alive, so that no later array can have the same address.
            self._kept.append(raw)
            self._known[key] = len(self.buffers)
            self.buffers.append(self._buffer(raw))
        return self._known[key]

    def _buffer(self, raw: np.ndarray) -> Values:
        if self.outside and raw.nbytes >= _OUTSIDE_BYTES:
            return {"offset": Outside(raw), "size": raw.nbytes}
        return {"data": raw}

    def custom_options(self, options: bytes) -> Values:
        """The fields of an operator that hold its option bytes."""
        if not options:
            return {}
        if self.outside and len(options) >= _OUTSIDE_BYTES:
            raw = np.frombuffer(options, np.uint8)
            return {
                "large_custom_options_offset": Outside(raw),
                "large_custom_options_size": raw.nbytes,
            }
        return {"custom_options": options}


def raw_bytes(array: np.ndarray) -> np.ndarray:
    """The little-endian bytes of an array, a view where possible."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8)


def tensor_values(
    tensor: Tensor, index_of: Mapping[Tensor, int], pool: BufferPool, schema: Schema
) -> Values:
    """The fields of a tensor table."""
    if tensor.dtype.name not in schema.enums["TensorType"].values:
        raise FormatError(
            f"a tensor's type cannot be stored in a .{schema.name} file",
            where=tensor.name,
            why=f"{tensor.dtype.name} is unknown there",
        )
    stored, extra = _stored(tensor, schema)
    values: Values = {
        "shape": tensor.static_shape or None,
        "type": tensor.dtype.name,
        "buffer": pool.add(stored) if stored is not None else 0,
        "name": tensor.name,
        "quantization": _quantization(tensor, index_of, schema),
        "is_variable": tensor.is_variable,
        "sparsity": _sparsity(tensor),
        "has_rank": tensor.has_rank,
    }
    if None in tensor.shape:
        values["shape_signature"] = [-1 if size is None else size for size in tensor.shape]
    return refuse_unknown(values | extra, "Tensor", tensor.name, schema)


def _stored(tensor: Tensor, schema: Schema) -> tuple[np.ndarray | None, Values]:
    """What is stored of a constant, compressed where it asks for that, and its other fields."""
    data, extra = tensor.data, dict(tensor.extra)
    if data is None or not extra.pop(COMPRESSION, None):
        return data, dict(tensor.extra)
    known = COMPRESSION in schema.tables["Tensor"].fields
    codes = huffman_encoded(data) if known and is_compressible(tensor) else data
    return (codes, dict(tensor.extra)) if codes.nbytes < data.nbytes else (data, extra)


def refuse_unknown(values: Values, table: str, where: str, schema: Schema) -> Values:
    """The values unchanged; FormatError if the schema's table lacks one of them."""
    for name in values:
        if name not in schema.tables[table].fields:
            raise FormatError(
                f"{name} cannot be stored in a .{schema.name} file",
                where=where,
                why=f"its {table} table has no such field",
            )
    return values


def _quantization(tensor: Tensor, index_of: Mapping[Tensor, int], schema: Schema) -> Values | None:
    quant = tensor.quant
    if quant is None:
        return None
    return {
        "min": _unless_empty(quant.minimum),
        "max": _unless_empty(quant.maximum),
        "scale": _unless_empty(quant.scale),
        "zero_point": _unless_empty(quant.zero_point),
        "quantized_dimension": quant.axis,
        "details": _details(quant, tensor, index_of, schema),
    }


def _details(
    quant: Quantization, tensor: Tensor, index_of: Mapping[Tensor, int], schema: Schema
) -> Values | None:
    details = quant.details
    if details is None:
        return None
    if details.table not in schema.enums["QuantizationDetails"].values:
        raise FormatError(
            f"a form of quantisation cannot be stored in a .{schema.name} file",
            where=tensor.name,
            why=f"{details.table} is unknown there",
        )
    values = {"table": details.table, **_details_fields(details, index_of)}
    table = schema.tables[details.table]
    set_values = {name: value for name, value in values.items() if value not in (0, ())}
    refuse_unknown({k: v for k, v in set_values.items() if k != "table"}, table.name, "", schema)
    return set_values


def _details_fields(details: QuantDetails, index_of: Mapping[Tensor, int]) -> Values:
    if isinstance(details, BlockwiseQuant):
        zeros = details.zero_points
        return {
            "scales": index_of[details.scales],
            "zero_points": -1 if zeros is None else index_of[zeros],
            "block_size": details.block_size,
        }
    return dict(details.fields) if isinstance(details, OpaqueQuant) else {}


def _sparsity(tensor: Tensor) -> Values | None:
    stored = tensor.sparsity
    if stored is None:
        return None
    return {
        "traversal_order": stored.traversal_order,
        "block_map": stored.block_map or None,
        "dim_metadata": stored.dims,
    }


def _unless_empty(array: np.ndarray) -> np.ndarray | None:
    return array if array.size else None
