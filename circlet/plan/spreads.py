"""Broadcasts to sizes that their operands have in every run."""

from __future__ import annotations

from circlet.ir import Graph, Op
from circlet.ops.operands import operand
from circlet.passes.remove_dead_ops import RemoveDeadOps
from circlet.passes.rewriter import Rewriter
from circlet.plan.sizes import SizeTable


def drop_spreads(graph: Graph, table: SizeTable) -> None:
    """Take BROADCAST_TO away where it gives what it is given.

    PyTorch's exporter broadcasts the places of a boolean mask to one another's sizes.
    """
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.kind == "BROADCAST_TO" and _is_same(op, table):
            rewriter.bypass(op, operand(op, 0))
    if rewriter.finish():
        RemoveDeadOps().run(graph)


def _is_same(op: Op, table: SizeTable) -> bool:
    sizes, wanted = table.of(operand(op, 0)), table.elements(op.input(1))
    return sizes is not None and sizes == wanted
