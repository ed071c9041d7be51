"""A reduction of a reduction is one over the axes of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Op
from circlet.ir.builder import constant
from circlet.ops.operands import operand
from circlet.ops.reduce import ReducerAttrs, constant_axes
from circlet.passes.match import made_of
from circlet.passes.rewriter import Rewriter

_KINDS = frozenset({"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"})


@dataclass(frozen=True)
class MergeReductions:
    """Reduce all axes at once.

    Before: `MEAN(MEAN(x, 1), 1)`. After: `MEAN(x, [1, 2])`. Of floats, of one kind, where nothing
    else reads the first and both keep the reduced axes or neither does. Sums are formed in another
    order, so last bits differ.
    """

    name = "merge-reductions"
    needs = _KINDS
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Merge in execution order, so that chains merge in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in _KINDS:
                _merge(op, rewriter)
        return rewriter.finish()


def _merge(op: Op, rewriter: Rewriter) -> None:
    middle = operand(op, 0)
    first = rewriter.producer(middle)
    if first is None or first.kind != op.kind or first.attrs != op.attrs:
        return
    if op.outputs[0].dtype is not DType.FLOAT32 or not rewriter.is_private(middle):
        return
    source, inner, outer = operand(first, 0), constant_axes(first), constant_axes(op)
    if inner is None or outer is None or not source.has_rank:
        return
    if not op.attributes(ReducerAttrs).keep_dims:
        left = [axis for axis in range(len(source.shape)) if axis not in inner]
        outer = tuple(left[axis] for axis in outer)
    axes = constant("axes", np.array(sorted({*inner, *outer}), np.int32))
    rewriter.replace([first, op], made_of(op, op.kind, [source, axes], op.attrs))
