"""Operators that the standard took over later, and small ones that it never had."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import (
    compared,
    floats,
    joined,
    recorded,
    resized,
    split,
    standard,
    widened,
)
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Shape, Tensor
from circlet.ops.reduce import ReducerAttrs


@importer("Pad", domain=MICROSOFT)
def _pad(node: Node) -> Tensor:
    return standard(node, "Pad", node.inputs, mode=node.text("mode", "constant"))


@importer("ExpandDims", domain=MICROSOFT)
def _expand_dims(node: Node) -> Tensor:
    axis = node.known_ints(1)
    if axis is None:
        raise NotLoweredError("the axis is computed in a run")
    return widened(node, node[0], axis[0])


@importer("Range", domain=MICROSOFT)
def _range(node: Node) -> Tensor:
    steps = node.optional(2)
    step = node.const(1, node[0].dtype.numpy) if steps is None else steps
    return standard(node, "Range", [resized(node, x, []) for x in (node[0], node[1], step)])


@importer("GatherND", domain=MICROSOFT)
def _gather_nd(node: Node) -> Tensor:
    data, indices = node[0].shape, node[1].shape
    picked = indices[-1] if indices else None
    if picked is None:
        raise NotLoweredError("how many axes indices pick from is open")
    shape: Shape = (*indices[:-1], *data[picked:])
    return recorded(node, "GatherND", node.inputs, [(node[0].dtype, shape)])[0]


@importer("Unique", domain=MICROSOFT)
def _unique(node: Node) -> list[Tensor]:
    """Elements in the order that they come first in, their places, and how often they come."""
    x, whole = node[0], DType.INT64
    types = [(x.dtype, (None,)), (whole, (None,)), (whole, x.shape), (whole, (None,))]
    made = recorded(node, "Unique", [x], types, sorted=0)
    return [made[0], made[2], made[3]]


@importer("GridSample", domain=MICROSOFT)
def _grid_sample(node: Node) -> Tensor:
    x, grid = node[0], node[1]
    if node.rank(x) != 4 or node.rank(grid) != 4:
        raise NotLoweredError("only images are sampled")
    attributes = dict(node.attributes)
    attributes.setdefault("mode", "bilinear")
    types: list[tuple[DType, Shape]] = [(x.dtype, (*x.shape[:2], *grid.shape[1:3]))]
    return recorded(node, "GridSample", [x, grid], types, **attributes)[0]


@importer("IsAllFinite", domain=MICROSOFT)
def _is_all_finite(node: Node) -> Tensor:
    total: Tensor | None = None
    for index in range(len(node.inputs)):
        x = floats(node, index)
        axes = node.const(range(node.rank(x)), np.int32)
        made = node.op("REDUCE_ALL", [_finite(node, x), axes], ReducerAttrs(False), DType.BOOL)
        total = made if total is None else node.op("LOGICAL_AND", [total, made])
    if total is None:
        raise node.wrong("there is nothing to look at")
    return total


def _finite(node: Node, x: Tensor) -> Tensor:
    """Which elements are numbers, are not infinite, or both."""
    if node.whole("isnan_only"):
        return compared(node, "EQUAL", x, x)
    large = node.const(np.float32(np.inf))
    if node.whole("isinf_only"):
        return compared(node, "NOT_EQUAL", node.op("ABS", [x]), large)
    return compared(node, "LESS", node.op("ABS", [x]), large)


def _complex(node: Node, sign: str) -> Tensor:
    """Products of pairs along the last axis, of the second operand's conjugate with a sign."""
    (a, b), (c, d) = (split(node, floats(node, index), -1, [1, 1]) for index in (0, 1))
    other = "ADD" if sign == "SUB" else "SUB"
    ac, bd, ad, bc = (node.op("MUL", list(p)) for p in ((a, c), (b, d), (a, d), (b, c)))
    return joined(node, [node.op(sign, [ac, bd]), node.op(other, [bc, ad])], -1)


@importer("ComplexMul", domain=MICROSOFT)
def _complex_mul(node: Node) -> Tensor:
    return _complex(node, "SUB")


@importer("ComplexMulConj", domain=MICROSOFT)
def _complex_mul_conj(node: Node) -> Tensor:
    return _complex(node, "ADD")


def _length(node: Node, axis: int) -> int:
    """The size of the axis of a signal."""
    size = node[0].shape[axis]
    if node.whole("signal_ndim") != 1 or size is None or size < 1:
        raise NotLoweredError("only signals of one axis and known size are transformed")
    if node.whole("normalized") or not node.whole("onesided", 1):
        raise NotLoweredError("only one-sided transforms that are not normalised are known")
    return size


@importer("Rfft", domain=MICROSOFT)
def _rfft(node: Node) -> Tensor:
    x, axis = floats(node), node.rank(node[0]) - 1
    size = _length(node, axis)
    types: list[tuple[DType, Shape]] = [(x.dtype, (*x.shape[:-1], size // 2 + 1, 2))]
    given = [widened(node, x, -1), node.const(size, np.int64), node.const(axis, np.int64)]
    return recorded(node, "DFT", given, types, onesided=1)[0]


@importer("Irfft", domain=MICROSOFT)
def _irfft(node: Node) -> Tensor:
    """Signals of even length from the first half of their transforms."""
    x, axis = floats(node), node.rank(node[0]) - 2
    size = 2 * (_length(node, axis) - 1)
    types: list[tuple[DType, Shape]] = [(x.dtype, (*x.shape[:-2], size, 1))]
    given = [x, node.const(size, np.int64), node.const(axis, np.int64)]
    made = recorded(node, "DFT", given, types, onesided=1, inverse=1)[0]
    return resized(node, made, [*[0] * axis, size])
