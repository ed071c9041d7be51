"""Writing one element of a list takes one op, not a cut and a join."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops import NoAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import is_reshape, operand
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class FuseListUpdate:
    """Replace what converters make of `list[i] = item` by DYNAMIC_UPDATE_SLICE.

    Before: `CONCATENATION(SLICE(list, 0, [i, -1..]), item, SLICE(list, [i + 1, 0..], -1))`.
    After: `DYNAMIC_UPDATE_SLICE(list, item, [i, 0..])`. The sizes of the slices depend on data,
    those of the result do not. Keras writes the outputs of recurrent loops so.
    """

    name = "fuse-list-update"

    def run(self, graph: Graph) -> bool:
        """Fuse every update that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "CONCATENATION" and len(op.inputs) == 3:
                _fuse(op, rewriter)
        return rewriter.finish()


def _fuse(join: Op, rewriter: Rewriter) -> None:
    before, item, after = (operand(join, i) for i in range(3))
    head, tail = rewriter.producer(before), rewriter.producer(after)
    if head is None or tail is None or not _is_cut(head, rewriter) or not _is_cut(tail, rewriter):
        return
    target = operand(head, 0)
    if join.attributes(ConcatenationAttrs).axis != 0 or operand(tail, 0) is not target:
        return
    if item.shape[:1] != (1,) or len(item.shape) != len(target.shape):
        return
    position = _first(operand(head, 2), -1, rewriter)
    following = _first(operand(tail, 1), 0, rewriter)
    if position is None or not _is_next(following, position, rewriter):
        return
    if not _holds(operand(head, 1), 0) or not _holds(operand(tail, 2), -1):
        return
    # The start [i, 0..] is the sizes' join [i, -1..] with zeros behind.
    sizes = rewriter.producer(operand(head, 2))
    assert sizes is not None
    rest = operand(sizes, 1)
    zeros = replace(rest, name=f"{rest.name} as zeros", data=_zeros_like(rest))
    start = operand(head, 2).like(f"{join.outputs[0].name} start")
    rewriter.replace(
        [head, tail, join],
        replace(sizes, inputs=[operand(sizes, 0), zeros], outputs=[start]),
        replace(join, kind="DYNAMIC_UPDATE_SLICE", inputs=[target, item, start], attrs=NoAttrs()),
    )


def _is_cut(op: Op, rewriter: Rewriter) -> bool:
    return op.kind == "SLICE" and rewriter.is_private(op.outputs[0])


def _first(vector: Tensor, filler: int, rewriter: Rewriter) -> Tensor | None:
    """The scalar i of a vector [i, filler..] of rank-many numbers, or None for another vector."""
    join = rewriter.producer(vector)
    if join is None or join.kind != "CONCATENATION" or len(join.inputs) != 2:
        return None
    first, rest = operand(join, 0), operand(join, 1)
    if first.dtype is not DType.INT32 or first.shape != (1,) or not _holds(rest, filler):
        return None
    expand = rewriter.producer(first)
    return operand(expand, 0) if expand is not None and is_reshape(expand) else first


def _is_next(tensor: Tensor | None, position: Tensor, rewriter: Rewriter) -> bool:
    """Whether a tensor is position + 1."""
    add = rewriter.producer(tensor)
    if add is None or add.kind != "ADD":
        return False
    left, right = operand(add, 0), operand(add, 1)
    if right is position:
        left, right = right, left
    return left is position and _holds(right, 1)


def _holds(tensor: Tensor, value: int) -> bool:
    return tensor.data is not None and tensor.elements > 0 and bool(np.all(tensor.data == value))


def _zeros_like(tensor: Tensor) -> np.ndarray:
    zeros = np.zeros(tensor.static_shape, tensor.dtype.numpy)
    zeros.flags.writeable = False
    return zeros
