"""Blocks of planes become planes, and planes blocks, by one transpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op
from circlet.ops.blocks import block_size
from circlet.ops.decomposition import Parts
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.passes import Contract, Rewriter

_TO_PLANES, _TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
_KINDS = frozenset({"SPACE_TO_DEPTH", "DEPTH_TO_SPACE"})
_FEWEST = 24  # columns of the smaller planes: rows that are shorter cost more than transposes


@dataclass(frozen=True)
class BlockPlanes:
    """Move pixels between blocks and channels where they lie, with channels first.

    Before: `x[1,3,8,8] -> TRANSPOSE -> SPACE_TO_DEPTH -> TRANSPOSE -> y[1,12,4,4]`.
    After: `x -> RESHAPE [1,3,4,2,4,2] -> TRANSPOSE [1,2,2,3,4,4] -> RESHAPE -> y`.
    """

    name = "block-planes"
    contract = Contract(
        grows=dict.fromkeys(("operators", "bytes_moved"), "views of what is read and made count")
    )
    needs = _KINDS

    def run(self, graph: Graph) -> bool:
        """Rewrite every such operator between two transposes that nothing else reads."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "TRANSPOSE" and permutation(op) == _TO_PLANES:
                _rewrite(op, rewriter)
        return rewriter.finish()


def _rewrite(behind: Op, rewriter: Rewriter) -> None:
    own = rewriter.producer(operand(behind, 0))
    ahead = rewriter.producer(operand(own, 0)) if own and own.kind in _KINDS else None
    if own is None or ahead is None or ahead.kind != "TRANSPOSE":
        return
    if permutation(ahead) != _TO_PIXELS:
        return
    if not all(rewriter.is_private(op.outputs[0]) for op in (ahead, own)):
        return
    planes, result, side = operand(ahead, 0), behind.outputs[0], block_size(own)
    batch, channels, height, width = planes.static_shape
    if min(width, result.static_shape[3]) < _FEWEST:
        return
    if own.kind == "SPACE_TO_DEPTH":
        sizes = (batch, channels, height // side, side, width // side, side)
        order = (0, 3, 5, 1, 2, 4)
    else:
        sizes = (batch, side, side, channels // side**2, height, width)
        order = (0, 3, 4, 1, 5, 2)
    parts = Parts(own)
    blocks, turned = planes.like(f"{own.name} in blocks"), result.like(f"{own.name} turned")
    for tensor, shape in ((blocks, sizes), (turned, tuple(sizes[axis] for axis in order))):
        tensor.shape, tensor.default_shape, tensor.dim_names = shape, None, ()
    parts.reshape(planes, sizes, blocks)
    parts.make("TRANSPOSE", [blocks, parts.constant(np.array(order, np.int32))], None, turned)
    parts.reshape(turned, result.static_shape, result)
    rewriter.replace([ahead, own, behind], *parts.ops)
