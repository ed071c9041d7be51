"""Ops that run graphs: links to them, and what can be reached through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.errors import GraphError
from circlet.ir.graph import Graph, Op

Calls = Mapping[Op, Sequence[int]]


def link_regions(graphs: Sequence[Graph], calls: Calls) -> None:
    """Fill `Op.regions` where a file, which names graphs by number, says which an op runs.

    Raises:
        GraphError: An op names a graph that does not exist.
    """
    for op, numbers in calls.items():
        missing = [index for index in numbers if not 0 <= index < len(graphs)]
        if missing:
            raise GraphError(
                "an operator refers to a graph that does not exist",
                where=f"{op.name} ({op.label})",
                why=f"subgraph {missing[0]} of {len(graphs)}",
            )
        op.regions = [graphs[index] for index in numbers]


def reachable(graph: Graph) -> list[Graph]:
    """A graph and all graphs that its ops run, directly or through others, each once."""
    found = {graph: None}
    waiting = [graph]
    while waiting:
        inner = [region for op in waiting.pop().ops for region in op.regions]
        waiting += [region for region in dict.fromkeys(inner) if region not in found]
        found |= dict.fromkeys(inner)
    return list(found)
