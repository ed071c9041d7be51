"""Replace branches that never change by what they run."""

from __future__ import annotations

from dataclasses import dataclass, field

from circlet.ir import Graph, Op
from circlet.ir.regions import most_copies
from circlet.ops.operands import operand
from circlet.passes.inlining import copied_ops, is_plain
from circlet.passes.rewriter import Rewriter


class CopiedOps:
    """How many ops one network's branches have been replaced by."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, count: int) -> bool:
        """Count copies; False, and nothing counted, where they would be far too many."""
        if self._taken + count > most_copies(0):
            return False
        self._taken += count
        return True


@dataclass(frozen=True)
class InlineBranch:
    """Put a copy of the taken branch's ops in the place of each IF whose condition is constant.

    Before: `IF(true, x)` over `SQUEEZE(x)` and `x`. After: `SQUEEZE(x)`. Exporters write squeezes
    of sizes that they do not know so; once sizes are settled, so is the condition.

    Attributes:
        copies: What all inlining of one network has made.
    """

    name = "inline-branch"
    needs = frozenset({"IF"})
    copies: CopiedOps = field(default_factory=CopiedOps, compare=False)

    def run(self, graph: Graph) -> bool:
        """Inline each branch whose results are all computed."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            region = _taken(op, rewriter)
            if region is not None and is_plain(region) and self.copies.take(len(region.ops)):
                rewriter.replace([op], *copied_ops(op, region, op.inputs[1:]))
        return rewriter.finish()


def _taken(op: Op, rewriter: Rewriter) -> Graph | None:
    """The branch that an op always takes; a constant graph input is the caller's business."""
    if op.kind != "IF" or operand(op, 0) in rewriter.boundary:
        return None
    condition = operand(op, 0).data
    return None if condition is None else op.regions[0 if condition.any() else 1]
