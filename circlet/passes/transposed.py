"""What an operator becomes when it runs before a transpose instead of after it, by kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import find
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs, concatenation_axis
from circlet.ops.operands import known_ints
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs, squeezed_axes
from circlet.ops.strided_slice import StridedSliceAttrs

Order = tuple[int, ...]
Sources = Sequence[Tensor | None]


class Transposed(NamedTuple):
    """An op over operands in their former order, and the order that its results are to get."""

    inputs: list[Tensor | None]
    attrs: object
    order: Order


def is_movable(op: Op) -> bool:
    """Whether an op may run before a transpose of its operands."""
    return _rule(op) is not None and len(op.outputs) > 0 and not _per_channel(op)


def transposed(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """What an op becomes; None where it cannot be moved.

    `sources` are what the op's operands are transposed from, None for those that are not.
    """
    rule = _rule(op)
    return None if rule is None else rule(op, sources, order)


def _rule(op: Op) -> Callable[[Op, Sources, Order], Transposed | None] | None:
    known = _RULES.get(op.kind)
    if known is not None:
        return known
    record = find(op.label)
    return _elementwise if record is not None and record.scalar is not None else None


def _per_channel(op: Op) -> bool:
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    return any(t.quant is not None and t.quant.is_per_channel for t in tensors)


def _elementwise(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Constants are turned the other way; what is one element may stay."""
    inputs: list[Tensor | None] = []
    for tensor, source in zip(op.inputs, sources, strict=True):
        turned = source if source is not None else _turned(tensor, order)
        if turned is None:
            return None
        inputs.append(turned)
    return Transposed(inputs, op.attrs, order)


def _turned(tensor: Tensor | None, order: Order) -> Tensor | None:
    if tensor is None or not tensor.has_rank or len(tensor.shape) > len(order):
        return None
    if all(size == 1 for size in tensor.shape):
        return tensor
    if tensor.data is None or tensor.sparsity is not None or not tensor.dtype.has_numpy:
        return None
    full = tensor.data.reshape((1,) * (len(order) - tensor.data.ndim) + tensor.data.shape)
    made = np.ascontiguousarray(full.transpose(np.argsort(order)))
    return constant(tensor.name, made, tensor.quant, dtype=tensor.dtype)


def _concatenation(op: Op, sources: Sources, order: Order) -> Transposed | None:
    if None in sources or not isinstance(op.attrs, ConcatenationAttrs):
        return None
    attrs = replace(op.attrs, axis=order[concatenation_axis(op)])
    return Transposed(list(sources), attrs, order)


def _rows(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Kinds of which constant operands have a row for each axis: paddings, begins, repeats."""
    count = 2 if op.kind in ("PAD", "PADV2", "MIRROR_PAD", "TILE") else len(op.inputs)
    inputs: list[Tensor | None] = [sources[0], *op.inputs[1:]]
    for index in range(1, min(count, len(op.inputs))):
        table = op.inputs[index]
        if sources[0] is None or table is None or table.data is None:
            return None
        if table.data.shape[0] != len(order):
            return None
        made = np.ascontiguousarray(table.data[np.argsort(order)])
        inputs[index] = constant(table.name, made)
    return Transposed(inputs, op.attrs, order)


def _strided(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Ranges of all axes, none of them dropped or added."""
    attrs, begin = op.attrs, known_ints(op.input(1))
    if not isinstance(attrs, StridedSliceAttrs) or begin is None or sources[0] is None:
        return None
    if attrs.ellipsis_mask or attrs.new_axis_mask or attrs.shrink_axis_mask or attrs.offset:
        return None
    given = [known_ints(op.input(index)) for index in (1, 2, 3)]
    if None in given:
        return None
    rest = len(order) - len(begin)
    whole = sum(1 << axis for axis in range(len(begin), len(order)))
    masks = (attrs.begin_mask | whole, attrs.end_mask | whole)
    fills, lists = (0, 0, 1), []
    for values, fill in zip(given, fills, strict=True):
        full = np.array([*(values or ()), *[fill] * rest], np.int32)
        lists.append(constant("range", full[np.argsort(order)]))
    turned = [
        sum((mask >> axis & 1) << order[axis] for axis in range(len(order))) for mask in masks
    ]
    moved = replace(attrs, begin_mask=turned[0], end_mask=turned[1])
    return Transposed([sources[0], *lists], moved, order)


def _reduction(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Reductions that meet the elements in the same order: sums of others are not the same bits."""
    axes, attrs = known_ints(op.input(1)), op.attrs
    if axes is None or sources[0] is None or not isinstance(attrs, ReducerAttrs):
        return None
    outer = sorted(axis + len(order) if axis < 0 else axis for axis in axes)
    inner = [order[axis] for axis in outer]
    if inner != sorted(inner):
        return None
    places = constant("axes", np.array(inner, np.int32))
    left = order if attrs.keep_dims else _without(order, outer)
    return Transposed([sources[0], places], attrs, left)


def _without(order: Order, outer: Sequence[int]) -> Order:
    """The order that is left when some axes of a result are dropped."""
    kept = [source for axis, source in enumerate(order) if axis not in outer]
    return tuple(sorted(kept).index(source) for source in kept)


def _squeeze(op: Op, sources: Sources, order: Order) -> Transposed | None:
    source, result = sources[0], op.inputs[0]
    if source is None or result is None:
        return None
    outer = squeezed_axes(op, result.shape)
    attrs = SqueezeAttrs(tuple(order[axis] for axis in outer))
    return Transposed([source], attrs, _without(order, outer)) if outer else None


def _expand_dims(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """The new axis goes before the one that follows it, or behind all."""
    axes = known_ints(op.input(1))
    if axes is None or len(axes) != 1 or sources[0] is None:
        return None
    place = axes[0] + len(order) + 1 if axes[0] < 0 else axes[0]
    inner = order[place] if place < len(order) else len(order)
    moved = [axis + (axis >= inner) for axis in order]
    left = (*moved[:place], inner, *moved[place:])
    return Transposed([sources[0], constant("axis", np.array(inner, np.int32))], op.attrs, left)


def _along_last(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Kinds that run along the last axis, which must stay the last."""
    is_last = bool(order) and order[-1] == len(order) - 1
    return Transposed([sources[0]], op.attrs, order) if is_last and sources[0] else None


def _split(op: Op, sources: Sources, order: Order) -> Transposed | None:
    data, axis = (0, 2) if op.kind == "SPLIT_V" else (1, 0)
    axes = known_ints(op.input(axis))
    if axes is None or len(axes) != 1 or sources[data] is None:
        return None
    place = axes[0] + len(order) if axes[0] < 0 else axes[0]
    inputs = list(op.inputs)
    inputs[data] = sources[data]
    inputs[axis] = constant("axis", np.array(order[place], np.int32))
    return Transposed(inputs, op.attrs, order)


def _gather(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """A list of places along one axis, which keeps its place."""
    attrs, index = op.attrs, op.input(1)
    if not isinstance(attrs, GatherAttrs) or index is None or sources[0] is None:
        return None
    if attrs.batch_dims or len(index.shape) != 1 or sources[1] is not None:
        return None
    outer = attrs.axis + len(order) if attrs.axis < 0 else attrs.axis
    return Transposed([sources[0], index], replace(attrs, axis=order[outer]), order)


def _blocks(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """How many axes, from the front on, of two shapes hold the same elements, in least steps."""
    blocks, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        first, second = before[i], after[j]
        sizes = [1, 1]
        while first != second:
            place = 0 if first < second else 1
            sizes[place] += 1
            if i + sizes[0] > len(before) or j + sizes[1] > len(after):
                return []
            if place:
                second *= after[j + sizes[1] - 1]
            else:
                first *= before[i + sizes[0] - 1]
        blocks.append((sizes[0], sizes[1]))
        i, j = i + sizes[0], j + sizes[1]
    return blocks if (i, j) == (len(before), len(after)) else []


def reshaped(op: Op, sources: Sources, order: Order) -> Transposed | None:
    """Axes that are neighbours in the source too are joined or split there."""
    given, result = op.inputs[0], op.outputs[0]
    if sources[0] is None or given is None or len(given.shape) != len(order):
        return None
    if None in (*given.shape, *result.shape) or 0 in given.shape:
        return None
    ends = [0, 0]
    made: list[tuple[int, tuple[int, ...], int]] = []
    for inner, outer in _blocks(given.static_shape, result.static_shape):
        axes = order[ends[0] : ends[0] + inner]
        if list(axes) != list(range(axes[0], axes[0] + inner)):
            return None
        made.append((axes[0], result.static_shape[ends[1] : ends[1] + outer], ends[1]))
        ends = [ends[0] + inner, ends[1] + outer]
    if not made:
        return None
    places = [place + i for _, sizes, place in sorted(made) for i in range(len(sizes))]
    target = tuple(size for _, sizes, _ in sorted(made) for size in sizes)
    left = tuple(places.index(axis) for axis in range(len(places)))
    sizes_of = constant("sizes", np.array(target, np.int32))
    return Transposed([sources[0], sizes_of], ReshapeAttrs(target), left)


_REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
_ROWS = ("SOFTMAX", "LOG_SOFTMAX", "LOCAL_RESPONSE_NORMALIZATION")
_RULES: dict[str, Callable[[Op, Sources, Order], Transposed | None]] = {
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD", "TILE", "SLICE"), _rows),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(_ROWS, _along_last),
    **dict.fromkeys(("SPLIT", "SPLIT_V"), _split),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE", "CAST"), _elementwise),
    "CONCATENATION": _concatenation,
    "GATHER": _gather,
    "RESHAPE": reshaped,
    "STRIDED_SLICE": _strided,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
}
