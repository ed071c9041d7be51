"""What every pass test asks: the ops left, no lost origin, equal results."""

from __future__ import annotations

import numpy as np

from circlet.ir import Graph
from circlet.ops.verify import verify
from circlet.passes import make
from circlet.passes.contract import contract_of
from circlet.passes.totals import totals
from tests.evaluate import evaluate, random_inputs


def rewritten(
    graph: Graph,
    *names: str,
    lost: frozenset[str] = frozenset(),
    tolerance: float = 0.0,
    inputs: list[np.ndarray] | None = None,
) -> list[str]:
    """Run passes; the kinds left, after checking rules, origins, interface, costs and results.

    `lost` names source operators that may vanish, as dead code does. Results are equal bit for
    bit, but for passes that say they are not exact: those stay within `tolerance`, relative to
    the largest magnitude. A second run changes nothing.
    """
    verify(graph)
    inputs, sources = inputs or random_inputs(graph), source_names(graph)
    boundary, wanted = [*graph.inputs, *graph.outputs], evaluate(graph, inputs)
    for name in names:
        kinds, before = kinds_of(graph), totals(graph)
        changed = make(name).run(graph)
        assert changed or kinds == kinds_of(graph)
        verify(graph)
        assert contract_of(make(name)).growth(before, totals(graph)) == ""
    assert source_names(graph) == sources - lost
    assert [*graph.inputs, *graph.outputs] == boundary
    assert not any(make(name).run(graph) for name in names[-1:])
    declared = sum(contract_of(make(name)).tolerance for name in names)
    exact = declared == 0
    assert exact is (tolerance == 0) and tolerance <= declared
    for got, want in zip(evaluate(graph, inputs), wanted, strict=True):
        if exact:
            np.testing.assert_array_equal(got, want)
        else:
            largest = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest)
    return kinds_of(graph)


def kinds_of(graph: Graph) -> list[str]:
    """The kinds of the ops in order."""
    return [op.kind for op in graph.ops]


def source_names(graph: Graph) -> set[str]:
    """Names of all source operators that some op descends from."""
    return {source.name for op in graph.ops for source in op.origin.sources}
