"""Sequences and optionals, of which none is left in a model.

Their lengths and places are known, or they are stacks of equally large tensors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.formats.onnx.importers.lists import packed
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.sequences import GrowingList, StackedList, TensorList, tensor_list
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.order import CumsumAttrs
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs


def _items(node: Node) -> list[Tensor]:
    given = node[0]
    if not isinstance(given, TensorList) or isinstance(given, GrowingList) or given.items is None:
        raise NotLoweredError("the length of a sequence is not known before a run")
    return given.items


def _stack(node: Node) -> Tensor | None:
    """The stack of a sequence whose length a run finds, None for a list of tensors."""
    given = node[0]
    return given.stack if isinstance(given, StackedList) else None


def _place(node: Node, index: int, count: int, default: int) -> int:
    """The constant place of a node, counted from the front; a default where none is given."""
    if node.optional(index) is None:
        return default
    known = node.known_ints(index)
    if known is None or len(known) != 1:
        raise NotLoweredError("a place in a sequence is not known before a run")
    return known[0] + count if known[0] < 0 else known[0]


@importer("SequenceEmpty")
def _empty(node: Node) -> Tensor:
    return tensor_list(node.name, [])


@importer("SequenceConstruct")
def _construct(node: Node) -> Tensor:
    return tensor_list(node.name, [node[index] for index in range(len(node.inputs))])


@importer("SequenceInsert")
def _insert(node: Node) -> Tensor:
    given = node[0]
    if isinstance(given, GrowingList) and given.items is not None and node.optional(2) is None:
        return replace(given, items=[*given.items, node[1]])
    items = list(_items(node))
    place = _place(node, 2, len(items), len(items))
    if not 0 <= place <= len(items):
        raise node.wrong("a place lies outside of a sequence", f"{place} of {len(items)}")
    return tensor_list(node.name, [*items[:place], node[1], *items[place:]])


@importer("SequenceErase")
def _erase(node: Node) -> Tensor:
    items = list(_items(node))
    place = _place(node, 1, len(items), len(items) - 1)
    if not 0 <= place < len(items):
        raise node.wrong("a place lies outside of a sequence", f"{place} of {len(items)}")
    return tensor_list(node.name, items[:place] + items[place + 1 :])


@importer("SequenceAt")
def _at(node: Node) -> Tensor:
    stack = _stack(node)
    if stack is not None or node.known(1) is None:
        return _slice_at(node, packed(node, _items(node)) if stack is None else stack, node[1])
    items = _items(node)
    place = _place(node, 1, len(items), len(items))
    if not 0 <= place < len(items):
        raise node.wrong("a place lies outside of a sequence", f"{place} of {len(items)}")
    return items[place]


def _slice_at(node: Node, stack: Tensor, place: Tensor) -> Tensor:
    """A slice along the first axis; places below 0 count from behind."""
    wanted = node.cast(place, DType.INT64)
    behind = node.op("ADD", [wanted, _count_of(node, stack)])
    is_behind = node.op("LESS", [wanted, node.const(0, np.int64)], dtype=DType.BOOL)
    at = node.op("SELECT_V2", [is_behind, behind, wanted], dtype=DType.INT64)
    return node.op("GATHER", [stack, at], GatherAttrs(0))


def _count_of(node: Node, stack: Tensor) -> Tensor:
    return node.op("GATHER", [node.sizes(stack), node.const(0, np.int32)], GatherAttrs(0))


@importer("SequenceLength")
def _length(node: Node) -> Tensor:
    if (stack := _stack(node)) is not None:
        return _count_of(node, stack)
    return node.const(len(_items(node)), np.int64)


@importer("ConcatFromSequence")
def _concat(node: Node) -> Tensor:
    if (stack := _stack(node)) is not None:
        return _flattened(node, stack)
    items = list(_items(node))
    if not items:
        raise node.wrong("an empty sequence has no elements to join")
    is_stacked = bool(node.whole("new_axis"))
    rank = max(node.rank(item) for item in items) + is_stacked
    axis = node.axis(node.whole("axis"), rank)
    if is_stacked:
        at = node.const(axis, np.int32)
        items = [node.op("EXPAND_DIMS", [item, at]) for item in items]
    return (
        items[0] if len(items) == 1 else node.op("CONCATENATION", items, ConcatenationAttrs(axis))
    )


def _flattened(node: Node, stack: Tensor) -> Tensor:
    """The slices of a stack, joined along an axis of theirs or along a new one."""
    rank = node.rank(stack)
    if node.whole("new_axis"):
        axis = node.axis(node.whole("axis"), rank)
        return node.transpose(stack, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    axis = node.axis(node.whole("axis"), rank - 1)
    moved = node.transpose(stack, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    kept = [*moved.shape[:axis], *moved.shape[axis + 2 :]]
    if None not in kept:
        sizes = [size for size in kept if size is not None]
        return node.reshape(moved, [*sizes[:axis], -1, *sizes[axis:]])
    places = [node.const([*range(axis)], np.int64), node.const([*range(axis + 2, rank)], np.int64)]
    before, behind = (node.op("GATHER", [node.sizes(moved), p], GatherAttrs(0)) for p in places)
    target = [before, node.const([-1], np.int64), behind]
    joined = node.op("CONCATENATION", target, ConcatenationAttrs(0))
    return node.op("RESHAPE", [moved, joined], ReshapeAttrs(()))


@importer("SplitToSequence")
def _split(node: Node) -> Tensor:
    """Pieces of given sizes, of one size, or single slices."""
    x = node[0]
    axis = node.axis(node.whole("axis"), node.rank(x))
    sizes = _sizes(node, x.shape[axis])
    count = sizes.shape[0]
    if count is None:
        raise NotLoweredError("the length of a sequence is not known before a run")
    begins = node.op("CUMSUM", [sizes, node.const(0, np.int32)], CumsumAttrs(True, False))
    pieces = [_piece(node, x, axis, begins, sizes, index) for index in range(count)]
    if node.optional(1) is None and not node.whole("keepdims", 1):
        pieces = [node.op("SQUEEZE", [piece], SqueezeAttrs((axis,))) for piece in pieces]
    return tensor_list(node.name, pieces)


def _sizes(node: Node, whole: int | None) -> Tensor:
    """The sizes of the pieces, INT64."""
    given = node.optional(1)
    if given is not None and given.has_rank and len(given.shape) == 1:
        return node.cast(given, DType.INT64)
    each = 1 if given is None else (node.known_ints(1) or (0,))[0]
    if whole is None or each < 1:
        raise NotLoweredError("the length of a sequence is not known before a run")
    sizes = [each] * (whole // each) + ([whole % each] if whole % each else [])
    return node.const(sizes, np.int64)


def _piece(node: Node, x: Tensor, axis: int, begins: Tensor, sizes: Tensor, index: int) -> Tensor:
    """Elements from a begin on along an axis, and all of the other axes."""
    first, last = [0] * axis, [0] * (len(x.shape) - axis - 1)
    begin = _around(node, first, _element(node, begins, index), last)
    size = _around(node, [-1] * axis, _element(node, sizes, index), [-1] * len(last))
    return node.op("SLICE", [x, begin, size])


def _element(node: Node, values: Tensor, index: int) -> Tensor:
    place, one = node.const([index], np.int64), node.const([1], np.int64)
    return node.op("SLICE", [values, place, one])


def _around(node: Node, before: list[int], middle: Tensor, behind: list[int]) -> Tensor:
    parts = [node.const(before, np.int64)] if before else []
    parts += [middle, *([node.const(behind, np.int64)] if behind else [])]
    return parts[0] if len(parts) == 1 else node.op("CONCATENATION", parts, ConcatenationAttrs(0))


def _is_absent(value: Tensor | None) -> bool:
    return value is None or (type(value) is TensorList and value.items is None)


@importer("Optional")
def _optional(node: Node) -> Tensor:
    given = node.optional(0)
    return tensor_list(node.name, None) if given is None else given


@importer("OptionalHasElement")
def _has_element(node: Node) -> Tensor:
    return node.const(not _is_absent(node.optional(0)), np.bool_)


@importer("OptionalGetElement")
def _get_element(node: Node) -> Tensor:
    given = node.optional(0)
    if given is None or _is_absent(given):
        raise node.wrong("an optional has no value to take")
    return given
