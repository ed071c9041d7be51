"""Nodes of the default domain as parts of others: what an operator is short for."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import find_importer
from circlet.ir import DType, Shape, Tensor

# The operator set that parts are written in, whichever one the file states.
OPSET = 22


def standards(
    node: Node, kind: str, inputs: Sequence[Tensor | None], count: int, **attributes: Any
) -> list[Tensor]:
    """The results of an operator of the standard, made as part of a node.

    Raises:
        NotLoweredError: No records of Circle say what it means.
    """
    part = _part(node, kind, inputs, count, attributes)
    function = find_importer("", kind, OPSET)
    if function is None:
        raise NotLoweredError(f"{kind} has no form of several operators")
    made = function(part)
    return made if isinstance(made, list) else [made]


def standard(
    node: Node, kind: str, inputs: Sequence[Tensor | None], *, count: int = 1, **attributes: Any
) -> Tensor:
    """As `standards`, of an operator with one result; of `count`, the first is read alone."""
    return standards(node, kind, inputs, count, **attributes)[0]


def recorded(
    node: Node,
    kind: str,
    inputs: Sequence[Tensor | None],
    types: Sequence[tuple[DType, Shape]],
    **attributes: Any,
) -> list[Tensor]:
    """As `standards`; where no records say it, the one of the domain `onnx`, of stated types."""
    kept = len(node.ops)
    try:
        return standards(node, kind, inputs, len(types), **attributes)
    except NotLoweredError:
        del node.ops[kept:]
    part = _part(node, kind, inputs, len(types), attributes)
    made = node.graph.own_record(part)
    for tensor, (dtype, shape) in zip(made, types, strict=True):
        tensor.dtype, tensor.shape, tensor.has_rank = dtype, shape, True
    return made


def _part(
    node: Node, kind: str, inputs: Sequence[Tensor | None], count: int, attributes: dict[str, Any]
) -> Node:
    part = copy(node)
    part.kind, part.domain, part.opset = kind, "", OPSET
    part.inputs, part.attributes = list(inputs), attributes
    part.outputs = [f"{node.name}_{kind}_{index}" for index in range(count)]
    return part


# What many operators are made of.
def scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    """`x` times a number."""
    return x if factor == 1 else node.op("MUL", [x, node.const(np.float32(factor))])


def floats(node: Node, index: int = 0) -> Tensor:
    """An operand, which must be FLOAT32."""
    x = node[index]
    if x.dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is computed so")
    return x


def split(node: Node, x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Parts of some sizes along an axis."""
    given = [x, node.const(list(sizes), np.int64)]
    return standards(node, "Split", given, len(sizes), axis=axis)


def joined(node: Node, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors one behind the other along an axis."""
    return standard(node, "Concat", parts, axis=axis)


def resized(node: Node, x: Tensor, sizes: Sequence[int]) -> Tensor:
    """`x` in other sizes: 0 is the size that it has there, -1 what is left."""
    made = standard(node, "Reshape", [x, node.const(list(sizes), np.int64)])
    if made.data is None and None in made.shape:
        # What a run computes of several open sizes is known where it is stated here.
        known = [x.shape[at] if size == 0 else size for at, size in enumerate(sizes)]
        pairs = zip(made.shape, known, strict=True)
        made.shape = tuple(size if known == -1 else known for size, known in pairs)
    return made


def widened(node: Node, x: Tensor, *axes: int) -> Tensor:
    """`x` with axes of size 1 added."""
    return standard(node, "Unsqueeze", [x, node.const(list(axes), np.int64)])


def size_of(node: Node, x: Tensor, axis: int) -> Tensor:
    """The size of an axis, an INT32 scalar."""
    size = x.shape[node.axis(axis, node.rank(x))]
    if size is not None:
        return node.const(size, np.int32)
    place = node.const(node.axis(axis, node.rank(x)), np.int32)
    return node.cast(node.op("GATHER", [node.sizes(x), place]), DType.INT32)


def counting(node: Node, end: Tensor) -> Tensor:
    """0, 1, 2, ... up to an INT32 scalar, which is left out."""
    zero, one = node.const(0, np.int32), node.const(1, np.int32)
    return node.op("RANGE", [zero, end, one], dtype=DType.INT32)


def compared(node: Node, kind: str, x: Tensor, y: Tensor) -> Tensor:
    """A comparison, BOOL."""
    return node.op(kind, [x, y], dtype=DType.BOOL)


def chosen(node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`x` where a condition holds, else `y`."""
    return node.op("SELECT_V2", [condition, x, y], dtype=x.dtype)
