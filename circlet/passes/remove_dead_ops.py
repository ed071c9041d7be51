"""Remove what nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph, Op
from circlet.ops import find
from circlet.passes.rewriter import Rewriter

_HAS_EFFECTS = frozenset(
    {
        "ASSIGN_VARIABLE",
        "CALL",
        "CALL_ONCE",
        "HASHTABLE_IMPORT",
        "IF",
        "WHILE",
        "READ_VARIABLE",
        "VAR_HANDLE",
    }
)


@dataclass(frozen=True)
class RemoveDeadOps:
    """Drop ops whose results are read by no op and are no graph output.

    Before: `x -> RELU -> y`, `x -> TANH -> unused`. After: `x -> RELU -> y`. Ops with effects
    (variables, calls, custom operators, kinds without a record) stay.
    """

    name = "remove-dead-ops"

    def run(self, graph: Graph) -> bool:
        """Walk backwards, so that whole dead branches go in one run."""
        rewriter = Rewriter(graph)
        for op in reversed(graph.ops):
            if not any(map(rewriter.is_read, op.outputs)) and _is_pure(op):
                rewriter.remove(op)
        return rewriter.finish()


def _is_pure(op: Op) -> bool:
    if op.kind in _HAS_EFFECTS or not op.outputs or find(op.kind) is None:
        return False
    return not any(t is not None and t.is_variable for t in op.inputs)
