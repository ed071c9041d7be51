"""Random generators with seeds get a variable that holds where they are."""

from __future__ import annotations

from dataclasses import replace

from circlet.ir import Graph
from circlet.ops.random import STATE_PLACES, RandomAttrs, state_variable
from circlet.passes.rewriter import Rewriter


def seed_generators(graph: Graph) -> bool:
    """Add the state of its generator to each operator that draws from a seed.

    Before: `RANDOM_UNIFORM(sizes)` with seeds. After: `RANDOM_UNIFORM(sizes, state)`; the state is
    a variable tensor that starts at the seeds, so numbers go on from run to run, and start again
    when a session is reset. True if anything changed.
    """
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        place = STATE_PLACES.get(op.kind)
        if place != len(op.inputs) or not isinstance(op.attrs, RandomAttrs):
            continue
        if op.attrs.generator is not None:
            state = state_variable(op.name, op.attrs.generator)
            rewriter.replace([op], replace(op, inputs=[*op.inputs, state]))
    return rewriter.finish()
