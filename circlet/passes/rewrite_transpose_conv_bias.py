"""Convolution2DTransposeBias becomes TRANSPOSE_CONV."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph
from circlet.ops.mediapipe.transpose_conv_bias import KIND, transpose_conv_of
from circlet.ops.operands import operand
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class RewriteTransposeConvBias:
    """Name the sizes of the result, which are all that sets the two apart.

    Before: `Convolution2DTransposeBias(x, w, b)`. After: `TRANSPOSE_CONV([n, h, w, c], w, x, b)`,
    with the amounts of padding that MediaPipe has. Where sizes are not known before a run, nothing
    changes.
    """

    name = "rewrite-transpose-conv-bias"
    needs = frozenset({"CUSTOM"})

    def run(self, graph: Graph) -> bool:
        """Rewrite each operator whose input's sizes are known."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.label == KIND and None not in operand(op, 0).shape:
                made = transpose_conv_of(op, operand(op, 0).static_shape)
                rewriter.replace([op], made)
        return rewriter.finish()
