"""How many rows ops find that look for something: what a run never exceeds, and what is equal."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from circlet.ir import Op
from circlet.ops.bounded import LIMITED, PROPOSED, SUPPRESSED
from circlet.ops.nnapi import record as nnapi
from circlet.ops.nnapi.proposals import proposal_counts
from circlet.ops.onnx.record import attributes, axis_of
from circlet.ops.operands import operand
from circlet.plan.sizes import (
    LEAST,
    PRODUCT,
    Numbers,
    Size,
    SizeTable,
    bounds_of,
    fewest_of,
    is_open,
    most_of,
)

Rule = Callable[[Op, SizeTable], list[Numbers | None]]
_NOTHING: list[Numbers | None] = []
THINNED = frozenset({"NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"})


def _where(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes = table.of(operand(op, 0))
    if sizes is None:
        return _NOTHING
    return [(Size(prod(most_of(size) for size in sizes)), len(sizes))]


def _unique(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As many as are distinct, and a place for each element."""
    sizes = table.of(operand(op, 0))
    return _NOTHING if sizes is None or len(sizes) != 1 else [(Size(most_of(sizes[0])),), sizes]


def _distinct(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As UNIQUE, of all elements; where each stands first and how often it comes are as many."""
    sizes = table.of(operand(op, 0))
    total = None if sizes is None or is_of_slices(op) else table.joined(PRODUCT, sizes)
    if total is None:
        return _NOTHING
    found: Numbers = (Size(most_of(total)),)
    return [found, found, (total,), found]


def is_of_slices(op: Op) -> bool:
    """Whether an ONNX Unique compares slices along an axis, not elements."""
    return attributes(op).get("axis") is not None and len(operand(op, 0).shape) != 1


def _suppressed(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As many boxes of each class of each batch as are asked for, and there are."""
    scores, wanted = table.of(operand(op, 1)), table.elements(op.input(2))
    if scores is None or len(scores) != 3:
        return _NOTHING
    batches, classes, boxes = map(most_of, scores)
    if op.input(2) is None:
        return [(0, 3)]
    each = boxes if wanted is None else max(0, min(boxes, most_of(wanted[0])))
    return [(Size(batches * classes * each), 3)]


def _thinned(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As many rows as are asked for; the last result says how many of them are boxes."""
    boxes, wanted = table.of(operand(op, 0)), table.elements(op.input(2))
    if boxes is None or wanted is None or len(wanted) != 1 or fewest_of(wanted[0]) < 0:
        return _NOTHING
    made = Size(min(most_of(boxes[0]), most_of(wanted[0])))
    found = table.joined(LEAST, [made, wanted[0]])
    if found is not None and made.most:
        table.numbers[op.outputs[-1]] = (found,)
    return [wanted] * (len(op.outputs) - 1)


def compressed_axis(op: Op) -> int | None:
    """The axis whose places a Compress chooses among, from the front; None for all elements."""
    axis = attributes(op).get("axis")
    return None if axis is None else axis_of(axis, len(operand(op, 0).shape))


def _compressed(op: Op, table: SizeTable) -> list[Numbers | None]:
    """At most as many places as there are flags."""
    sizes, flags, axis = table.of(operand(op, 0)), table.of(operand(op, 1)), compressed_axis(op)
    if sizes is None or flags is None:
        return _NOTHING
    chosen = Size(most_of(flags[0]))
    return [(chosen,) if axis is None else (*sizes[:axis], chosen, *sizes[axis + 1 :])]


def _top_k(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes, kept = table.of(operand(op, 0)), table.elements(op.input(1))
    if sizes is None or kept is None or len(kept) != 1 or not sizes:
        return _NOTHING
    # More than there are is refused in a run.
    count = table.joined(LEAST, [sizes[-1], kept[0]])
    return [None if count is None or fewest_of(count) < 0 else (*sizes[:-1], count)] * 2


def _limited(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As many boxes of each class as there are, or as are asked for: rows may be images each."""
    scores, boxes, images = (table.of(operand(op, index)) for index in range(3))
    if scores is None or boxes is None or images is None or is_open((*scores[1:], *boxes[1:])):
        return _NOTHING
    if not scores[0] == boxes[0] == images[0]:
        return _NOTHING
    each, most = max(0, most_of(scores[1]) - 1), nnapi.attributes(op).whole("max_detections")
    found = Size(most_of(scores[0]) * (min(each, most) if most >= 0 else each))
    return [(found,), (found, 4), (found,), (found,)]


def _proposed(op: Op, table: SizeTable) -> list[Numbers | None]:
    """As many boxes of each image as are looked at and asked for, and there are."""
    sizes = table.of(operand(op, 0))
    if sizes is None or is_open(sizes):
        return _NOTHING
    found = Size(most_of(sizes[0]) * min(proposal_counts(op, bounds_of(sizes))))
    return [(found,), (found, 4), (found,)]


FOUND: dict[str, Rule] = {
    "WHERE": _where,
    "UNIQUE": _unique,
    "CUSTOM:onnx.Unique": _distinct,
    SUPPRESSED: _suppressed,
    **dict.fromkeys(THINNED, _thinned),
    LIMITED: _limited,
    PROPOSED: _proposed,
    "CUSTOM:onnx.Compress": _compressed,
    "CUSTOM:onnx.TopK": _top_k,
    "TOPK_V2": _top_k,
}
