"""Of reshapes in a row, only the last one counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op
from circlet.ops.operands import is_reshape, known_ints
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class MergeReshapes:
    """Let a RESHAPE read what the size-changing op before it reads.

    Before: `x[2,6] -> RESHAPE -> [3,4] -> RESHAPE -> y[12]`. After: `x[2,6] -> RESHAPE -> y[12]`.
    Both stay where others read the result of the first too.
    """

    name = "merge-reshapes"
    needs = frozenset({"RESHAPE"})

    def run(self, graph: Graph) -> bool:
        """Merge in execution order, so that long chains collapse in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "RESHAPE" and known_ints(op.input(1)) is not None:
                _merge(op, rewriter)
        return rewriter.finish()


def _merge(op: Op, rewriter: Rewriter) -> None:
    middle = op.inputs[0]
    first = rewriter.producer(middle)
    if middle is None or first is None or not is_reshape(first):
        return
    if rewriter.is_private(middle):
        inputs = [first.inputs[0], *op.inputs[1:]]
        rewriter.replace([first, op], replace(op, inputs=inputs))
