"""Outputs that are parts of their input, so that they need no memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlet.ir import Op, Tensor
from circlet.ops import find
from circlet.ops.view import Range

Viewed = tuple[Tensor | None, Sequence[Range]]


def viewed(op: Op, number: int) -> Viewed:
    """The input that an output is a view of, if there is one, and the ranges of its axes."""
    record = find(op.label)
    view = None if record is None or record.view is None else record.view(op, number)
    return (None, ()) if view is None else (op.input(view.source), view.ranges)


def run_of(view: Viewed) -> tuple[Tensor, int] | None:
    """The input whose elements a view repeats in one run, and the number of its first one.

    None for ops that compute or rearrange, or whose output is spread over the input.
    """
    source, ranges = view
    start = None if source is None else _start_of_ranges(ranges, source.static_shape)
    return None if source is None or start is None else (source, start)


def channels_of(view: Viewed, result: Tensor) -> tuple[Tensor, int] | None:
    """The input of whose innermost axis an output is a run, and the number of its first element."""
    source, ranges = view
    if source is None or not ranges or len(source.shape) != len(result.shape):
        return None
    *outer, last = ranges
    whole = all(
        (part.start, part.step, part.count) == (0, 1, size)
        for part, size in zip(outer, source.static_shape, strict=False)
    )
    shape = (*source.static_shape[:-1], last.count)
    is_run = whole and last.step == 1 and result.static_shape == shape
    return (source, last.start) if is_run else None


def _start_of_ranges(ranges: Sequence[Range], shape: tuple[int, ...]) -> int | None:
    """One element of each outer axis, a run of one axis, all of the inner ones."""
    start, is_inside = 0, False
    for axis, (part, size) in enumerate(zip(ranges, shape, strict=True)):
        is_whole = (part.start, part.step, part.count) == (0, 1, size)
        if is_inside and not is_whole:
            return None
        is_inside |= part.count != 1
        if part.count != 1 and part.step != 1:
            return None
        start += part.start * prod(shape[axis + 1 :])
    return start
