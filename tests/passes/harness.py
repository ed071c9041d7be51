"""What every pass test asks: the ops left, no lost origin, equal results."""

from __future__ import annotations

import numpy as np

from circlet.ir import Graph
from circlet.ops.verify import verify
from circlet.passes import make
from tests.evaluate import evaluate, random_inputs


def rewritten(graph: Graph, *names: str, lost: frozenset[str] = frozenset()) -> list[str]:
    """Run passes; the kinds left, after checking rules, origins, interface and results.

    `lost` names source operators that may vanish, as dead code does.
    """
    verify(graph)
    inputs, sources = random_inputs(graph), source_names(graph)
    boundary, wanted = [*graph.inputs, *graph.outputs], evaluate(graph, inputs)
    for name in names:
        kinds = kinds_of(graph)
        changed = make(name).run(graph)
        assert changed or kinds == kinds_of(graph)
        verify(graph)
    assert source_names(graph) == sources - lost
    assert [*graph.inputs, *graph.outputs] == boundary
    for got, want in zip(evaluate(graph, inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return kinds_of(graph)


def kinds_of(graph: Graph) -> list[str]:
    """The kinds of the ops in order."""
    return [op.kind for op in graph.ops]


def source_names(graph: Graph) -> set[str]:
    """Names of all source operators that some op descends from."""
    return {source.name for op in graph.ops for source in op.origin.sources}
