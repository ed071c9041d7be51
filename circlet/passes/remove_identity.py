"""Remove ops that give back their input."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph, Op
from circlet.ops import find
from circlet.passes.match import same_meaning, same_sizes
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class RemoveIdentity:
    """Drop ops whose output equals their first input: same type, sizes, meaning and elements.

    Before: `x[1,4] -> RESHAPE [1,4] -> RELU`. After: `x[1,4] -> RELU`. The op's origin goes to
    the op that writes x, or to the readers where x is an input or a constant.
    """

    name = "remove-identity"

    def run(self, graph: Graph) -> bool:
        """Drop each identity that is not bound between a graph input and a graph output."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            source = op.input(0)
            if source is not None and _is_identity(op):
                rewriter.bypass(op, source)
        return rewriter.finish()


def _is_identity(op: Op) -> bool:
    source, record = op.input(0), find(op.label)
    if source is None or record is None or record.identity is None or len(op.outputs) != 1:
        return False
    (result,) = op.outputs
    return same_meaning(source, result) and same_sizes(source, result) and record.identity(op)
