"""Ops that run graphs: links to them, and what can be reached through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.errors import GraphError, LimitError
from circlet.ir.graph import Graph, Model, Op
from circlet.limits import Limits

# Kinds that run a condition and a body in turn, and those that run one of their graphs.
LOOPS = frozenset({"WHILE", "STABLEHLO_WHILE"})
BRANCHES = frozenset({"IF", "STABLEHLO_CASE"})
_FREE_COPIES, _COPIES = 4096, 4
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


def callees_first(graph: Graph) -> list[Graph]:
    """A graph and all that it runs, each once and behind those that it runs itself.

    No graph may run itself.
    """
    order: dict[Graph, None] = {}
    stack = [(graph, False)]
    while stack:
        current, is_left = stack.pop()
        if is_left:
            order[current] = None
        elif current not in order:
            inner = dict.fromkeys(region for op in current.ops for region in op.regions)
            stack.append((current, True))
            stack += [(region, False) for region in inner if region not in order]
    return list(order)


def unfolded_ops(graph: Graph, *, taken: bool = False) -> dict[Graph, int]:
    """How many ops a graph, and each that it runs, comes to where every call is a copy.

    `taken` counts what a run goes through at most: one branch of each IF, one turn of each loop.
    """
    counts: dict[Graph, int] = {}
    for part in callees_first(graph):
        counts[part] = sum(1 + ops_inside(op, counts, taken=taken) for op in part.ops)
    return counts


def ops_inside(op: Op, counts: Mapping[Graph, int], *, taken: bool = False) -> int:
    """How many ops the graphs of an op come to, given what each graph does."""
    inside = [counts[region] for region in op.regions]
    return max(inside, default=0) if taken and op.kind in BRANCHES else sum(inside)


def most_copies(own_ops: int) -> int:
    """How many ops graphs may come to that are put in the place of their calls.

    Real networks call most graphs once; others are run where they stand.
    """
    return max(_FREE_COPIES, _COPIES * own_ops)


def check_unfolded(graph: Graph, limits: Limits) -> None:
    """LimitError where calls of graphs make more ops of a network than it may have."""
    counts = unfolded_ops(graph, taken=True)
    if len(counts) == 1 or counts[graph] <= limits.ops:
        return
    widest = max(graph.ops, key=lambda op: ops_inside(op, counts, taken=True))
    raise LimitError(
        "graphs that are called again and again come to too many operators",
        where=f"{widest.name} ({widest.label})",
        why=f"a run goes through {counts[graph]}, the limit is {limits.ops}",
        fix="raise `ops` of circlet.limits.Limits if this is meant",
    )


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
