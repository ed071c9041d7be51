"""State that files do not name becomes variable tensors."""

from __future__ import annotations

from dataclasses import replace

from circlet.ir import Graph
from circlet.ir.regions import reachable
from circlet.ops import find
from circlet.passes.rewriter import Rewriter


def add_states(main: Graph) -> None:
    """Give each op that keeps state variables of its own, in all graphs that a graph runs.

    Before: `SignalDelay(x)`. After: `SignalDelay(x, v)` over a variable tensor `v`, as large as the
    sizes of `x` want it. Ops that have their variables keep them.
    """
    for graph in reachable(main):
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            record = find(op.label)
            if record is None or record.states is None:
                continue
            if len(op.inputs) == record.required:
                rewriter.replace([op], replace(op, inputs=[*op.inputs, *record.states(op)]))
        rewriter.finish()
