"""Ranges of ranges are ranges, and most need no steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import find
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.ops.view import Range
from circlet.passes.match import made_of, same_meaning
from circlet.passes.rewriter import Rewriter

_SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True)
class SimplifySlices:
    """Join slices that follow each other, and make a SLICE of a STRIDED_SLICE without steps.

    Before: `x[9] -> STRIDED_SLICE [2:8] -> SLICE [1, 3]`. After: `x[9] -> SLICE [3, 3]`. Only
    where all sizes are known, and no axis comes or goes.
    """

    name = "simplify-slices"
    needs = frozenset(_SLICES)

    def run(self, graph: Graph) -> bool:
        """Join in execution order, so that chains join in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in _SLICES:
                _simplify(op, rewriter)
        return rewriter.finish()


def _simplify(op: Op, rewriter: Rewriter) -> None:
    middle, ranges = operand(op, 0), _ranges(op)
    if ranges is None:
        return
    first = rewriter.producer(middle)
    before = _ranges(first) if first is not None and first.kind in _SLICES else None
    if first is None or before is None or not rewriter.is_private(middle):
        if op.kind == "STRIDED_SLICE" and _has_no_steps(ranges):
            rewriter.replace([op], _sliced(op, middle, ranges))
        return
    joined = tuple(map(_joined, before, ranges))
    rewriter.replace([first, op], _sliced(op, operand(first, 0), joined))


def _ranges(op: Op) -> tuple[Range, ...] | None:
    """The elements of each axis that an op takes, where it keeps all axes and all is known."""
    source, result, record = operand(op, 0), op.outputs[0], find(op.kind)
    if record is None or record.view is None or not (source.has_rank and result.has_rank):
        return None
    view = record.view(op, 0)
    if view is None or None in source.shape or not same_meaning(source, result):
        return None
    return view.ranges if tuple(part.count for part in view.ranges) == result.shape else None


def _joined(first: Range, second: Range) -> Range:
    start = first.start + second.start * first.step
    return Range(start, second.count, first.step * second.step)


def _has_no_steps(ranges: tuple[Range, ...]) -> bool:
    return all(part.step == 1 for part in ranges)


def _sliced(op: Op, source: Tensor, ranges: tuple[Range, ...]) -> Op:
    """The op that takes ranges of a tensor."""
    starts, counts = [part.start for part in ranges], [part.count or 0 for part in ranges]
    if _has_no_steps(ranges):
        return made_of(op, "SLICE", [source, _list(starts), _list(counts)], NoAttrs())
    ends = [part.start + count * part.step for part, count in zip(ranges, counts, strict=True)]
    whole = sum(1 << axis for axis, end in enumerate(ends) if end < 0)  # down to the first element
    steps = [part.step for part in ranges]
    inputs: list[Tensor | None] = [source, _list(starts), _list(ends), _list(steps)]
    return made_of(op, "STRIDED_SLICE", inputs, StridedSliceAttrs(end_mask=whole))


def _list(values: list[int]) -> Tensor:
    return constant("range", np.array(values, np.int32))
