"""A softmax along another axis than the last runs down its columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import DType, Graph, Op
from circlet.ops.fused import FUSED_SOFTMAX, FusedAttrs
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.ops.softmax import SoftmaxAttrs
from circlet.passes import Rewriter

_FEWEST = 8  # columns, where transposes take no longer
_LONGEST = 1 << 10  # of columns, which are added up one element after the other


@dataclass(frozen=True)
class FuseSoftmax:
    """Leave the axis of a softmax where it is.

    Before: `x[1,21,8,8] -> TRANSPOSE [0,2,3,1] -> SOFTMAX -> TRANSPOSE [0,3,1,2]`. After: one
    `FUSED_SOFTMAX`. The powers of a column are added in its order.
    """

    name = "fuse-softmax"
    needs = frozenset({"SOFTMAX"})

    def run(self, graph: Graph) -> bool:
        """Fuse every softmax between two such transposes."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            parts = _matched(op, rewriter) if op.kind == "TRANSPOSE" else ()
            if parts:
                inputs = [parts[0].inputs[0]]
                attrs = FusedAttrs(parts)
                fused = Op(FUSED_SOFTMAX, inputs, parts[-1].outputs, attrs, parts[-1].origin)
                rewriter.replace(parts, fused)
        return rewriter.finish()


def _matched(back: Op, rewriter: Rewriter) -> tuple[Op, ...]:
    """A transpose that brings an axis to the end, the softmax, and `back`; nothing of others."""
    softmax = rewriter.producer(back.inputs[0])
    if softmax is None or softmax.kind != "SOFTMAX" or not _is_plain(softmax):
        return ()
    ahead = rewriter.producer(softmax.inputs[0])
    if ahead is None or ahead.kind != "TRANSPOSE":
        return ()
    if not all(rewriter.is_private(op.outputs[0]) for op in (ahead, softmax)):
        return ()
    return (ahead, softmax, back) if _keeps_others(ahead, back) else ()


def _is_plain(softmax: Op) -> bool:
    source = operand(softmax, 0)
    takes = source.dtype is DType.FLOAT32 and softmax.attributes(SoftmaxAttrs).beta >= 0
    return takes and 0 < source.static_shape[-1] <= _LONGEST


def _keeps_others(ahead: Op, back: Op) -> bool:
    """Whether one axis goes behind all, over many columns, and returns."""
    order, shape = permutation(ahead), operand(ahead, 0).static_shape
    if order is None or permutation(back) != tuple(np.argsort(order)):
        return False
    axis = order[-1]
    others = tuple(a for a in range(len(order)) if a != axis)
    return order[:-1] == others and prod(shape[axis + 1 :]) >= _FEWEST
