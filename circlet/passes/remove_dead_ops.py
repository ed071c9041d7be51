"""Remove what nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph, Op
from circlet.ops import is_pure
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class RemoveDeadOps:
    """Drop ops whose results are read by no op and are no graph output.

    Before: `x -> RELU -> y`, `x -> TANH -> unused`. After: `x -> RELU -> y`. Ops with effects
    (variables, graphs that it runs, user operators, kinds without a record) stay.
    """

    name = "remove-dead-ops"

    def run(self, graph: Graph) -> bool:
        """Walk backwards, so that whole dead branches go in one run."""
        rewriter = Rewriter(graph)
        for op in reversed(graph.ops):
            if not any(map(rewriter.is_read, op.outputs)) and _is_free(op):
                rewriter.remove(op)
        return rewriter.finish()


def _is_free(op: Op) -> bool:
    """Whether results are all that there is of an op."""
    uses_variables = any(t is not None and t.is_variable for t in op.inputs)
    return is_pure(op) and len(op.outputs) > 0 and not uses_variables
