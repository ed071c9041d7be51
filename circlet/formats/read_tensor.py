"""Tensors: flatbuffer tables to `circlet.ir.Tensor`, sizes and ranges checked."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.errors import FormatError, GraphError, LimitError
from circlet.formats.flatbuffer import Reader, Table, Value
from circlet.formats.huffman import huffman_decoded, is_compressed
from circlet.formats.micro_tables import MicroTable, looked_up_bytes
from circlet.ir import DType, OpaqueQuant, Quantization, Sparsity, Tensor
from circlet.ir.quant import BlockIndices, QuantDetails
from circlet.limits import Limits
from circlet.words import counted

_READ = {
    *("shape", "shape_signature", "has_rank", "type", "buffer", "name"),
    *("quantization", "is_variable", "sparsity"),
}


def read_tensor(
    table: Table, index: int, buffers: list[np.ndarray], values: MicroTable | None = None
) -> Tensor:
    """One tensor of a subgraph; `buffers` holds the bytes of every buffer of the file.

    The data of sparse constants are their stored bytes; compressed ones are read as what they are.
    With `values`, places in that table are stored.
    """
    name = table.text("name")
    where = name or f"tensor {index}"
    dtype = _dtype(table, where)
    default_shape = _shape(table, where)
    shape = _symbolic_shape(table, default_shape, where)
    tensor = Tensor(
        name,
        dtype,
        shape,
        quant=_quantization(table, where),
        default_shape=tuple(1 if size < 0 else size for size in default_shape),
        has_rank=bool(shape) or bool(table.scalar("has_rank")),
        is_variable=bool(table.scalar("is_variable")),
        sparsity=_sparsity(table),
        extra=extra_fields(table, _READ, where),
    )
    if tensor.extra.get("external_buffer"):
        raise FormatError(
            "the weights of a tensor lie in another file", where=where, fix="store them inside"
        )
    size_bytes = _checked_size(tensor, where, table.file.limits)
    raw = _buffer(table, buffers, where)
    if values is not None:
        table.file.charge(tensor.size_bytes, where)
        raw = looked_up_bytes(tensor, raw, values, where)
    _attach(tensor, size_bytes, raw, table.file, where)
    tensor.has_rank = tensor.has_rank or tensor.is_constant
    return tensor


def extra_fields(table: Table, read: set[str], where: str) -> dict[str, object]:
    """Stored fields outside of `read` whose value is not the default, to be written back."""
    extra: dict[str, object] = {}
    for field in table.spec.fields.values():
        if field.name in read or not table.has(field.name):
            continue
        if field.kind != "scalar" or table.scalar(field.name) != field.default:
            extra[field.name] = table.value(field, where)
    return extra


def _dtype(table: Table, where: str) -> DType:
    return DType(table.enum("type", where))


def _shape(table: Table, where: str) -> tuple[int, ...]:
    shape = tuple(table.ints("shape"))
    if len(shape) > table.file.limits.rank:
        raise LimitError("a tensor has too many dimensions", where=where, why=f"{len(shape)}")
    if min(shape, default=0) < -1:
        raise GraphError("a dimension is negative", where=where, why=f"shape {list(shape)}")
    return shape


def _symbolic_shape(
    table: Table, default_shape: tuple[int, ...], where: str
) -> tuple[int | None, ...]:
    """The shape with None for the sizes that the signature, or the shape, gives as -1."""
    signature = tuple(table.ints("shape_signature")) or default_shape
    if len(signature) != len(default_shape):
        raise GraphError(
            "shape and shape signature differ in length",
            where=where,
            why=f"{list(default_shape)} and {list(signature)}",
        )
    if min(signature, default=0) < -1:
        raise GraphError("a dimension is negative", where=where, why=f"signature {signature}")
    return tuple(
        None if unknown < 0 else size
        for size, unknown in zip(default_shape, signature, strict=True)
    )


def _checked_size(tensor: Tensor, where: str, limits: Limits) -> int:
    size_bytes = tensor.size_bytes
    # Sizes of 0 count as 1: an empty array of huge other sizes is more than numpy can describe.
    widest_bytes = prod(size or 1 for size in tensor.static_shape) * tensor.dtype.bits // 8
    if widest_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is too big",
            where=where,
            why=f"shape {list(tensor.static_shape)} takes {widest_bytes} bytes, "
            f"the limit is {limits.tensor_bytes}",
            fix="raise Limits.tensor_bytes if the file is trusted",
        )
    return size_bytes


def _buffer(table: Table, buffers: list[np.ndarray], where: str) -> np.ndarray:
    index = table.integer("buffer")
    if index == 0:
        return np.zeros(0, np.uint8)
    if index >= len(buffers):
        raise FormatError(
            "a tensor refers to a buffer that does not exist",
            where=where,
            why=f"buffer {index} of {len(buffers)}",
        )
    return buffers[index]


def _attach(tensor: Tensor, size_bytes: int, raw: np.ndarray, file: Reader, where: str) -> None:
    """Make the tensor a constant if it has bytes, viewed as its type and shape."""
    if raw.size == 0:
        return
    dtype = tensor.dtype
    if tensor.sparsity is not None or not dtype.bits:
        tensor.data = raw
        return
    if is_compressed(tensor):
        raw = _decompressed(raw, tensor, file, where)
    if raw.size < size_bytes:
        raise FormatError(
            "a constant holds fewer bytes than its shape needs",
            where=where,
            why=f"{dtype.name} {list(tensor.static_shape)} needs {size_bytes} bytes, "
            f"the file has {raw.size}",
        )
    if None in tensor.shape:
        tensor.shape = tensor.static_shape
    tensor.data = _view(raw[:size_bytes], tensor, file, where)


def _decompressed(raw: np.ndarray, tensor: Tensor, file: Reader, where: str) -> np.ndarray:
    """What the stored codes of a constant stand for; ONE compresses bytes alone."""
    if tensor.dtype not in (DType.INT8, DType.UINT8):
        raise FormatError(
            "compressed weights cannot be read", where=where, why=f"they are {tensor.dtype.name}"
        )
    file.charge(raw.size, where)
    decoded = huffman_decoded(raw, tensor.elements, where)
    decoded.flags.writeable = False
    return decoded


def _view(raw: np.ndarray, tensor: Tensor, file: Reader, where: str) -> np.ndarray:
    """The bytes as the tensor's type and shape; a copy only where the file does not align them."""
    if not tensor.dtype.has_numpy:
        return raw
    view = raw.view(tensor.dtype.numpy).reshape(tensor.static_shape)
    if view.flags.aligned:
        return view
    file.charge(view.nbytes, where)
    aligned = view.copy()
    aligned.flags.writeable = False
    return aligned


def _quantization(table: Table, where: str) -> Quantization | None:
    stored = table.table("quantization")
    if stored is None:
        return None
    scale = stored.array("scale")
    minimum, maximum = stored.array("min"), stored.array("max")
    details = _details(stored)
    if not (scale.size or minimum.size or maximum.size or details):
        return None
    return Quantization(
        scale,
        _zero_points(stored, scale, where),
        stored.integer("quantized_dimension"),
        minimum,
        maximum,
        details,
    )


def _zero_points(stored: Table, scale: np.ndarray, where: str) -> np.ndarray:
    """Zero points, as many as scales; one or none stands for all."""
    zero_point = stored.array("zero_point")
    if zero_point.size == scale.size:
        return zero_point
    if zero_point.size > 1:
        raise GraphError(
            "scales and zero points differ in number",
            where=where,
            why=f"{counted(scale.size, 'scale')}, {zero_point.size} zero points",
        )
    value = zero_point[0] if zero_point.size else 0
    return np.full(scale.size, value, np.int64)


def _details(stored: Table) -> QuantDetails | None:
    table = stored.union("details")
    if table is None:
        return None
    fields: dict[str, Value] = table.unpack()
    if table.spec.name == "BlockwiseQuantization" and not fields.get("block_shape"):
        return BlockIndices(
            table.integer("scales"), table.integer("zero_points"), table.integer("block_size")
        )
    return OpaqueQuant(table.spec.name, dict(fields))


def _sparsity(table: Table) -> Sparsity | None:
    stored = table.table("sparsity")
    if stored is None:
        return None
    dims: list[dict[str, object]] = [{**dim.unpack()} for dim in stored.tables("dim_metadata")]
    return Sparsity(stored.ints("traversal_order"), stored.ints("block_map"), dims)


def mark_empty_constants(tensors: list[Tensor], computed: set[Tensor]) -> None:
    """Give every tensor without elements that nothing computes its (empty) constant data."""
    for tensor in tensors:
        if tensor.data is None and tensor not in computed and _is_empty(tensor):
            tensor.data = np.zeros(tensor.static_shape, tensor.dtype.numpy)


def _is_empty(tensor: Tensor) -> bool:
    known = tensor.dtype.has_numpy and not tensor.is_variable and None not in tensor.shape
    return known and prod(tensor.static_shape) == 0
