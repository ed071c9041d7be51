"""The square of a difference is one operator."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op
from circlet.ops.opdef import NoAttrs
from circlet.passes.match import is_plain, made_of
from circlet.passes.rewriter import Rewriter

_TYPES = (DType.FLOAT32, DType.INT32)


@dataclass(frozen=True)
class FuseSquaredDifference:
    """Square a difference where it is formed.

    Before: `SQUARE(SUB(a, b))` or `MUL(d, d)` where `d = SUB(a, b)`. After:
    `SQUARED_DIFFERENCE(a, b)`. Only where nothing else reads the difference.
    """

    name = "fuse-squared-difference"
    needs = frozenset({"SUB"})

    def run(self, graph: Graph) -> bool:
        """Fuse every pair that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            first = rewriter.producer(op.input(0))
            if first is None or not is_plain(first, "SUB") or not _squares(op):
                continue
            if op.outputs[0].dtype in _TYPES and rewriter.results([first, op]) == op.outputs:
                fresh = made_of(op, "SQUARED_DIFFERENCE", [*first.inputs], NoAttrs())
                rewriter.replace([first, op], fresh)
        return rewriter.finish()


def _squares(op: Op) -> bool:
    return op.kind == "SQUARE" or (is_plain(op, "MUL") and op.inputs[0] is op.inputs[1])
