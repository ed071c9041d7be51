"""Reads the definition of a tensor: type, sizes, quantisation, inline data."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from circlet.ir.dtype import DType
from circlet.ir.graph import Shape, Sparsity, Tensor
from circlet.ir.quant import BlockIndices, OpaqueQuant, QuantDetails, Quantization
from circlet.ir.text_values import Cursor
from circlet.words import counted

_QUANT = ("scale", "zero", "axis", "min", "max", "blockwise", "details")
_OPTIONS = (*_QUANT, "variable", "default", "sparsity", "extra")
ReadOptions = Callable[[tuple[str, ...]], dict[str, object]]


def parse_tensor(name: str, cursor: Cursor, options: ReadOptions) -> tuple[Tensor, int | None]:
    """`: TYPE[sizes] @position option=value ...`: the tensor and its position."""
    cursor.expect(":")
    dtype = _dtype(cursor)
    shape, has_rank = parse_shape(cursor)
    position = int(cursor.take().text[1:]) if cursor.token.kind == "position" else None
    tensor = Tensor(name, dtype, shape, has_rank=has_rank)
    try:
        _apply(tensor, options(_OPTIONS))
    except (TypeError, ValueError, OverflowError) as error:
        cursor.fail(f"an option of this tensor has a wrong value ({error})", back=1)
    return tensor, position


def parse_shape(cursor: Cursor) -> tuple[Shape, bool]:
    """Sizes in brackets and whether the rank is known."""
    cursor.expect("[")
    has_rank = not cursor.accept("*")

    def size() -> int | None:
        return None if cursor.accept("?") else cursor.integer()

    return tuple(cursor.listed("]", size)), has_rank


def parse_inline_data(tensor: Tensor, cursor: Cursor) -> np.ndarray:
    """`[1, 2, 3]`: all elements of a constant, the last axis fastest."""
    cursor.expect("[")
    values = cursor.listed("]", cursor.number)
    if not tensor.dtype.has_numpy or None in tensor.shape:
        cursor.fail("only constants of plain types and known sizes have inline data", back=1)
    sizes = tensor.static_shape
    if prod(sizes) != len(values):
        cursor.fail(f"{counted(prod(sizes), 'element')} expected, not {len(values)}", back=1)
    try:
        data = np.array(values, tensor.dtype.numpy).reshape(sizes)
    except (OverflowError, ValueError) as error:
        cursor.fail(f"an element does not fit {tensor.dtype.name} ({error})", back=1)
    data.flags.writeable = False
    return data


def _dtype(cursor: Cursor) -> DType:
    word = cursor.take_kind("word", "an element type")
    if word not in DType.__members__:
        cursor.fail("there is no such element type", back=1)
    return DType[word]


def _apply(tensor: Tensor, options: dict[str, object]) -> None:
    """Set what the options say; TypeError or ValueError for values of a wrong kind."""
    if any(name in options for name in _QUANT):
        tensor.quant = _quantization(options)
    tensor.is_variable = options.get("variable") is True
    if "default" in options:
        tensor.default_shape = tuple(_integers(options["default"]))
    if "sparsity" in options:
        tensor.sparsity = _sparsity(_dictionary(options["sparsity"]))
    tensor.extra = _dictionary(options.get("extra", {}))


def _quantization(options: dict[str, object]) -> Quantization:
    scale, zero = np.array(_list(options.get("scale", [])), np.float32), options.get("zero", [])
    zeros = [zero] * scale.size if isinstance(zero, int) else zero
    return Quantization(
        scale,
        np.array(_integers(zeros), np.int64),
        _integers([options.get("axis", 0)])[0],
        np.array(_list(options.get("min", [])), np.float32),
        np.array(_list(options.get("max", [])), np.float32),
        _details(options),
    )


def _details(options: dict[str, object]) -> QuantDetails | None:
    if "blockwise" in options:
        scales, zeros, size = _integers(options["blockwise"])
        return BlockIndices(scales, zeros, size)
    if "details" not in options:
        return None
    table, values = _list(options["details"])
    return OpaqueQuant(str(table), _dictionary(values))


def _sparsity(values: dict[str, object]) -> Sparsity:
    dims = [_dictionary(dim) for dim in _list(values.get("dims"))]
    order, blocks = values.get("traversal_order"), values.get("block_map")
    return Sparsity(_integers(order), _integers(blocks), dims)


def _list(value: object) -> list[object]:
    if not isinstance(value, list | tuple):
        raise TypeError("a list expected")
    return list(value)


def _integers(value: object) -> list[int]:
    found = [item for item in _list(value) if isinstance(item, int)]
    if len(found) != len(_list(value)):
        raise TypeError("whole numbers expected")
    return found


def _dictionary(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("a dictionary expected")
    return value
