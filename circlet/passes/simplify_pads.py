"""A padding with zeros needs no value to pad with."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph
from circlet.ops.opdef import NoAttrs
from circlet.passes.fuse_pad import pads_zero
from circlet.passes.match import made_of
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class SimplifyPads:
    """Make a PAD of a PADV2 whose constant value stands for zero.

    Before: `PADV2(x, amounts, 0.0)`. After: `PAD(x, amounts)`, which more runtimes have kernels of.
    """

    name = "simplify-pads"
    needs = frozenset({"PADV2"})

    def run(self, graph: Graph) -> bool:
        """Replace every padding with zeros."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "PADV2" and op.inputs[0] is not None and pads_zero(op):
                rewriter.replace([op], made_of(op, "PAD", [*op.inputs[:2]], NoAttrs()))
        return rewriter.finish()
