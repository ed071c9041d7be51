"""Variables that start as constants of another number form."""

from __future__ import annotations

from circlet.ir import Graph, Op
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops import find
from circlet.ops.operands import present
from circlet.ops.verify import op_violations
from circlet.passes.rewriter import Rewriter


def start_variables(graph: Graph, budget: MemoryBudget | None = None) -> None:
    """Have variables start as what operators make of constants, and remove these operators.

    Before: `v = DEQUANTIZE(float16 constant); LSTM(x, ..., v)`. After: `LSTM(x, ..., v)` over a
    variable `v` that starts as the constant, which is charged to the budget.

    Raises:
        GraphError: An op breaks a rule of its record.
        LimitError: The budget has not enough left.
    """
    known = budget or DEFAULT_LIMITS.memory_budget(0)
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if _starts(op, graph, known):
            rewriter.remove(op)
    rewriter.finish()


def _starts(op: Op, graph: Graph, budget: MemoryBudget) -> bool:
    """Store what an op gives its variable as the start; False where it does no such thing."""
    record = find(op.label)
    if record is None or not op.outputs or not op.outputs[0].is_variable:
        return False
    for violation in op_violations(op, graph):
        raise violation.error()
    start = op.outputs[0]
    budget.charge(start.size_bytes, start.name, "what it starts as")
    values = [present(None if tensor is None else tensor.data) for tensor in op.inputs]
    start.initial = record.evaluate(op, values)[0]
    return True
