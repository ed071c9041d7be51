"""Ops that run graphs: links to them, and what can be reached through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.errors import GraphError
from circlet.ir.graph import Graph, Model, Op

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


def call_depth(model: Model) -> int:
    """How deeply graphs run each other; 1 where none runs another.

    Raises:
        GraphError: A graph runs itself, directly or through others.
    """
    places = {graph: index for index, graph in enumerate(model.graphs)}
    calls = [
        sorted({places[region] for op in graph.ops for region in op.regions if region in places})
        for graph in model.graphs
    ]
    depths: dict[int, int] = {}
    for start in range(len(calls)):
        _walk(start, calls, depths, model)
    return max(depths.values(), default=1)


def _walk(start: int, calls: list[list[int]], depths: dict[int, int], model: Model) -> None:
    """Find the depth below each graph; without recursion, as the depth is the file's choice."""
    path: set[int] = set()
    stack = [(start, False)]
    while stack:
        graph, leaving = stack.pop()
        if leaving:
            path.remove(graph)
            depths[graph] = 1 + max((depths[callee] for callee in calls[graph]), default=0)
        elif graph in path:
            raise GraphError(
                "a graph calls itself",
                where=model.graphs[graph].name or f"subgraph {graph}",
                why="recursion has no end that can be planned for",
            )
        elif graph not in depths:
            path.add(graph)
            stack.append((graph, True))
            stack += [(callee, False) for callee in calls[graph]]
