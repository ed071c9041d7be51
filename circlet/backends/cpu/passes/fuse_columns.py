"""What runs along another axis than the last runs down its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops import find
from circlet.ops.fused import FUSED_COLUMNS, FusedAttrs
from circlet.ops.layout import permutation
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.operands import operand
from circlet.ops.softmax import SoftmaxAttrs
from circlet.passes import Rewriter
from circlet.passes.transposed import is_movable, transposed

_FEWEST = 8  # columns, where transposes take no longer
_LONGEST = 1 << 10  # of columns, which are added up one element after the other


@dataclass(frozen=True)
class FuseColumns:
    """Leave the axis of a softmax, of its logarithm, or of a local response norm, where it is.

    Before: `x[1,21,8,8] -> TRANSPOSE [0,2,3,1] -> SOFTMAX -> TRANSPOSE [0,3,1,2]`. After: one
    `FUSED_COLUMNS`. The powers of a column are added in its order. An element-wise operator ahead
    of the last transpose, such as QuantizeLinear, runs behind it.
    """

    name = "fuse-columns"
    needs = frozenset({"SOFTMAX", "LOG_SOFTMAX", "LOCAL_RESPONSE_NORMALIZATION"})

    def run(self, graph: Graph) -> bool:
        """Fuse every such operator between two such transposes."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "TRANSPOSE":
                _fuse(op, rewriter)
        return rewriter.finish()


def _fuse(back: Op, rewriter: Rewriter) -> None:
    """Fuse a transpose that brings an axis to the end, what runs along it, and `back`."""
    behind = rewriter.producer(back.inputs[0])
    if behind is None:
        return
    own = behind if behind.kind in _TAKES else rewriter.producer(behind.inputs[0])
    if own is None or own.kind not in _TAKES or not _is_plain(own):
        return
    ahead = rewriter.producer(own.inputs[0])
    if ahead is None or not _keeps_others(ahead, back):
        return
    gone = list(dict.fromkeys((ahead, own, behind, back)))
    if not all(rewriter.is_private(op.outputs[0]) for op in gone[:-1]):
        return
    if own is behind:
        rewriter.replace(gone, _fused(ahead, own, back))
        return
    columns = own.outputs[0].like(f"{own.outputs[0].name} in columns")
    columns.shape, columns.default_shape = operand(ahead, 0).shape, None
    moved = _moved(behind, columns, ahead)
    if moved is not None:
        first = replace(back, inputs=[own.outputs[0], back.inputs[1]], outputs=[columns])
        rewriter.replace(gone, _fused(ahead, own, first), replace(moved, outputs=back.outputs))


def _fused(ahead: Op, own: Op, back: Op) -> Op:
    parts = FusedAttrs((ahead, own, back))
    return Op(FUSED_COLUMNS, [ahead.inputs[0]], back.outputs, parts, back.origin)


def _moved(op: Op, source: Tensor, ahead: Op) -> Op | None:
    """An element-wise op over what lies in columns; None of others."""
    record, order = find(op.label), permutation(ahead)
    if record is None or record.scalar is None or not is_movable(op) or order is None:
        return None
    others = [None] * (len(op.inputs) - 1)
    made = transposed(op, [source, *others], order)
    return None if made is None else replace(op, inputs=made.inputs, attrs=made.attrs)


def _is_plain(op: Op) -> bool:
    source = operand(op, 0)
    is_taken = source.dtype is DType.FLOAT32 and _TAKES[op.kind](op)
    return is_taken and 0 < source.static_shape[-1] <= _LONGEST


def _takes_softmax(op: Op) -> bool:
    return op.attributes(SoftmaxAttrs).beta >= 0


def _takes_norm(op: Op) -> bool:
    attrs = op.attributes(LocalResponseNormAttrs)
    return attrs.bias >= 0 and attrs.alpha >= 0


_TAKES: Mapping[str, Callable[[Op], bool]] = {
    "SOFTMAX": _takes_softmax,
    "LOG_SOFTMAX": lambda op: True,
    "LOCAL_RESPONSE_NORMALIZATION": _takes_norm,
}


def _keeps_others(ahead: Op, back: Op) -> bool:
    """Whether one axis goes behind all, over many columns, and returns."""
    if ahead.kind != "TRANSPOSE":
        return False
    order, shape = permutation(ahead), operand(ahead, 0).static_shape
    if order is None or permutation(back) != tuple(np.argsort(order)):
        return False
    axis = order[-1]
    others = tuple(a for a in range(len(order)) if a != axis)
    return order[:-1] == others and prod(shape[axis + 1 :]) >= _FEWEST
