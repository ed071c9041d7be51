"""STABLEHLO_DOT_GENERAL and STABLEHLO_CONVOLUTION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.ir import Op, Shape
from circlet.ops.guard import look, working
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes
from circlet.ops.operands import operand, present, sizes_agree, when_ranked
from circlet.ops.parts import matmul
from circlet.ops.stablehlo.pad import Spread, spread_out, spread_size
from circlet.ops.stablehlo.types import (
    NUMBERS,
    define,
    distinct_axes,
)

_FORMS = tuple(f"{name} {name} -> *" for name in NUMBERS)
_MOST = 1 << 31
_COPIES = 3  # of an image: padded, and what a place of all windows takes of it


def _wide_enough(op: Op) -> bool:
    """Whether results are numbers of the operands' sort: sums are formed in their type."""
    given, made = operand(op, 0).dtype, op.outputs[0].dtype
    return made.name in NUMBERS and given.is_float == made.is_float


_RESULT = Rule("result-type", _wide_enough, "whole numbers make whole ones, floats make floats")


@dataclass(frozen=True)
class DotGeneralAttrs:
    """Axes that both operands go along together, kept (batching) or summed over."""

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    precision_config: tuple[str, ...] = ()


def dot_axes(op: Op, side: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Axes of an operand: batching, its own, contracting."""
    attrs, rank = op.attributes(DotGeneralAttrs), len(operand(op, side).shape)
    sides = (
        (attrs.lhs_batching_dimensions, attrs.lhs_contracting_dimensions),
        (attrs.rhs_batching_dimensions, attrs.rhs_contracting_dimensions),
    )
    batch, inner = sides[side]
    own = tuple(axis for axis in range(rank) if axis not in (*batch, *inner))
    return batch, own, inner


def _sizes(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(shape[axis] for axis in axes)


def _dot_fits(op: Op) -> bool:
    shapes = [operand(op, side).shape for side in (0, 1)]
    parts = [dot_axes(op, side) for side in (0, 1)]
    for shape, (batch, _, inner) in zip(shapes, parts, strict=True):
        if not distinct_axes((*batch, *inner), len(shape)):
            return False
    pairs = [
        (_sizes(shapes[0], parts[0][part]), _sizes(shapes[1], parts[1][part])) for part in (0, 2)
    ]
    return all(sizes_agree(left, right) for left, right in pairs)


def _infer_dot(op: Op) -> list[TensorType]:
    (batch, own, _), (_, other, _) = dot_axes(op, 0), dot_axes(op, 1)
    left, right = operand(op, 0).shape, operand(op, 1).shape
    shape = (*_sizes(left, batch), *_sizes(left, own), *_sizes(right, other))
    return [TensorType(op.outputs[0].dtype, shape)]


def _evaluate_dot(op: Op, inputs: Arrays) -> list[np.ndarray]:
    dtype = op.outputs[0].dtype.numpy
    left, right = (present(array).astype(dtype) for array in inputs)
    (batch, own, inner), (others, other, joined) = dot_axes(op, 0), dot_axes(op, 1)
    kept, rows = [left.shape[axis] for axis in batch], [left.shape[axis] for axis in own]
    columns, depth = [right.shape[axis] for axis in other], [left.shape[axis] for axis in inner]
    sizes = prod(kept), prod(rows), prod(depth), prod(columns)
    first = left.transpose((*batch, *own, *inner)).reshape(sizes[0], sizes[1], sizes[2])
    second = right.transpose((*others, *joined, *other)).reshape(sizes[0], sizes[2], sizes[3])
    return [np.asarray(matmul(first, second), dtype).reshape((*kept, *rows, *columns))]


def _dot_cost(op: Op) -> Cost:
    inner = prod(operand(op, 0).static_shape[axis] for axis in dot_axes(op, 0)[2])
    return Cost(macs=op.outputs[0].elements * inner, bytes=moves_bytes(op).bytes)


define(
    OpDef(
        kind="STABLEHLO_DOT_GENERAL",
        attrs=DotGeneralAttrs,
        arity=(2, 2),
        required=2,
        dtypes=_FORMS,
        infer=_infer_dot,
        evaluate=_evaluate_dot,
        rules=(
            _RESULT,
            when_ranked("axes", _dot_fits, "axes must exist, and go together in both operands"),
        ),
        numerics="tolerance",
        cost=_dot_cost,
    )
)


@dataclass(frozen=True)
class ConvolutionAttrs:
    """Windows, and where batch, features and space lie; empty lists of windows are 1, or 0."""

    window_strides: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    lhs_dilation: tuple[int, ...] = ()
    rhs_dilation: tuple[int, ...] = ()
    window_reversal: tuple[bool, ...] = ()
    input_batch_dimension: int = 0
    input_feature_dimension: int = 0
    input_spatial_dimensions: tuple[int, ...] = ()
    kernel_input_feature_dimension: int = 0
    kernel_output_feature_dimension: int = 0
    kernel_spatial_dimensions: tuple[int, ...] = ()
    output_batch_dimension: int = 0
    output_feature_dimension: int = 0
    output_spatial_dimensions: tuple[int, ...] = ()
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision_config: tuple[str, ...] = ()

    @property
    def orders(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Axes in the order batch, space, features: of input, kernel (in, space, out), result."""
        return (
            (self.input_batch_dimension, *self.input_spatial_dimensions,
             self.input_feature_dimension),
            (self.kernel_input_feature_dimension, *self.kernel_spatial_dimensions,
             self.kernel_output_feature_dimension),
            (self.output_batch_dimension, *self.output_spatial_dimensions,
             self.output_feature_dimension),
        )  # fmt: skip

    def along(self, axis: int) -> tuple[int, int, int, int, int, bool]:
        """Of an axis: stride, padding before and behind, both dilations, whether it is reversed."""
        low, high = self.padding[2 * axis : 2 * axis + 2] or (0, 0)

        def of(values: tuple[int, ...]) -> int:
            return values[axis] if values else 1

        reversal = bool(self.window_reversal) and self.window_reversal[axis]
        strides = of(self.window_strides)
        return strides, low, high, of(self.lhs_dilation), of(self.rhs_dilation), reversal


def _convolution(op: Op) -> ConvolutionAttrs:
    return op.attributes(ConvolutionAttrs)


def _axes_exist(op: Op) -> bool:
    attrs, rank = _convolution(op), len(operand(op, 0).shape)
    orders = all(sorted(order) == list(range(rank)) for order in attrs.orders)
    return rank >= 2 and len(operand(op, 1).shape) == rank and orders


def _windows_fit(op: Op) -> bool:
    attrs, rank = _convolution(op), len(operand(op, 0).shape) - 2
    lists = (attrs.window_strides, attrs.lhs_dilation, attrs.rhs_dilation)
    if any(len(each) not in (0, rank) for each in (*lists, attrs.window_reversal)):
        return False
    positive = all(1 <= value < _MOST for each in lists for value in each)
    pads = len(attrs.padding) in (0, 2 * rank) and all(abs(pad) < _MOST for pad in attrs.padding)
    return positive and pads


def _groups_fit(op: Op) -> bool:
    attrs = _convolution(op)
    groups, batches = attrs.feature_group_count, attrs.batch_group_count
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        return False
    source, weights = _ordered_shapes(op)
    channels, depth, filters, images = source[-1], weights[0], weights[-1], source[0]
    if channels is not None and depth is not None and channels != depth * groups:
        return False
    whole = filters is None or filters % (groups * batches) == 0
    return whole and (images is None or images % batches == 0)


def _ordered_shapes(op: Op) -> tuple[Shape, Shape]:
    first, second, _ = _convolution(op).orders
    return _sizes(operand(op, 0).shape, first), _sizes(operand(op, 1).shape, second)


def _places(size: int | None, window: int | None, row: Sequence[int]) -> int | None:
    """How many windows fit along an axis."""
    stride, low, high, base, step = row[:5]
    spread = spread_size(size, low, high, base - 1)
    if spread is None or window is None:
        return None
    return max(0, (spread - (window - 1) * step - 1) // stride + 1)


def _infer_convolution(op: Op) -> list[TensorType]:
    attrs, (source, weights) = _convolution(op), _ordered_shapes(op)
    images = None if source[0] is None else source[0] // attrs.batch_group_count
    space = [
        _places(source[axis + 1], weights[axis + 1], attrs.along(axis))
        for axis in range(len(source) - 2)
    ]
    shape: list[int | None] = [None] * len(source)
    for axis, size in zip(attrs.orders[2], (images, *space, weights[-1]), strict=True):
        shape[axis] = size
    return [TensorType(op.outputs[0].dtype, tuple(shape))]


def _joined(x: np.ndarray, w: np.ndarray, rows: Sequence[Sequence[int]], groups: int) -> np.ndarray:
    """Sums over windows of an image [n, space.., c] with filters [c / groups, space.., o]."""
    space = [_places(x.shape[1 + i], w.shape[1 + i], (row[0], 0, 0, 1, row[4])) or 0
             for i, row in enumerate(rows)]  # fmt: skip
    filters = w.shape[-1] // groups
    total = np.zeros((x.shape[0], *space, groups, filters), x.dtype)
    if not total.size:
        return total.reshape(*total.shape[:-2], -1)
    inner, filters_by_place = np.moveaxis(x, 0, -2), np.moveaxis(w, 0, -2)
    for place in product(*map(range, w.shape[1:-1])):
        look()
        taken = tuple(
            slice(at * row[4], at * row[4] + (n - 1) * row[0] + 1, row[0])
            for at, row, n in zip(place, rows, space, strict=True)
        )
        part = np.moveaxis(inner[taken], -2, 0).reshape(*total.shape[:-1], -1)
        weights = filters_by_place[place].reshape(part.shape[-1], groups, filters)
        total += np.einsum("...gc,cgf->...gf", part, weights)
    return total.reshape(*total.shape[:-2], -1)


def _evaluate_convolution(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, dtype = _convolution(op), op.outputs[0].dtype.numpy
    first, second, third = attrs.orders
    x = present(inputs[0]).astype(dtype).transpose(first)
    w = present(inputs[1]).astype(dtype).transpose(second)
    rows = [attrs.along(axis) for axis in range(x.ndim - 2)]
    spreads = [
        Spread(low, base, spread_size(size, low, high, base - 1) or 0)
        for size, (_, low, high, base, _, _) in zip(x.shape[1:-1], rows, strict=True)
    ]
    whole = (Spread(0, 1, x.shape[0]), *spreads, Spread(0, 1, x.shape[-1]))
    flipped = np.flip(w, tuple(1 + axis for axis, row in enumerate(rows) if row[5]))
    batches, size = attrs.batch_group_count, prod(axis.size for axis in whole)
    with working(_COPIES * size * x.itemsize, op, "the padded image"):
        images = np.split(spread_out(x, whole, np.zeros((), dtype)), batches)
        pairs = zip(images, np.split(flipped, batches, -1), strict=True)
        parts = [_joined(*pair, rows, attrs.feature_group_count) for pair in pairs]
        return [np.concatenate(parts, -1).transpose(np.argsort(third)).copy()]


def _spaces_are_left(op: Op) -> bool:
    attrs, (source, _) = _convolution(op), _ordered_shapes(op)
    rows = [attrs.along(axis) for axis in range(len(source) - 2)]
    sizes = [
        spread_size(size, row[1], row[2], row[3] - 1)
        for size, row in zip(source[1:-1], rows, strict=True)
    ]
    return all(size is None or size >= 0 for size in sizes)


def _convolution_cost(op: Op) -> Cost:
    _, weights = _ordered_shapes(op)
    macs = op.outputs[0].elements * prod(size or 1 for size in weights[:-1])
    return Cost(macs=macs, bytes=moves_bytes(op).bytes)


define(
    OpDef(
        kind="STABLEHLO_CONVOLUTION",
        attrs=ConvolutionAttrs,
        arity=(2, 2),
        required=2,
        dtypes=_FORMS,
        infer=_infer_convolution,
        evaluate=_evaluate_convolution,
        rules=(
            _RESULT,
            when_ranked("axes", _axes_exist, "each operand must have each axis once"),
            when_ranked("windows", _windows_fit, "there must be one stride and dilation per axis"),
            when_ranked("groups", _groups_fit, "groups must divide channels, filters and images"),
            when_ranked("padding", _spaces_are_left, "no axis may be cut off by more than it has"),
        ),
        numerics="tolerance",
        cost=_convolution_cost,
    )
)
