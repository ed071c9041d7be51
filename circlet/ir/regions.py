"""Links ops to the graphs that they run, which files name by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from circlet.errors import GraphError
from circlet.ir.graph import Graph, Model, Op, RawAttrs


def is_graph_field(name: str) -> bool:
    """Whether an attribute numbers graphs of the model."""
    return name == "subgraph" or "subgraph_ind" in name


def link_regions(model: Model) -> None:
    """Fill `Op.regions` from the attributes that number graphs, in the order of the attributes.

    Raises:
        GraphError: An op names a graph that does not exist.
    """
    for graph in model.graphs:
        for op in graph.ops:
            op.regions = [model.graphs[i] for i in _checked(op, len(model.graphs))]


def reachable(graph: Graph) -> list[Graph]:
    """A graph and all graphs that its ops run, directly or through others, each once."""
    found = {graph: None}
    waiting = [graph]
    while waiting:
        inner = [region for op in waiting.pop().ops for region in op.regions]
        waiting += [region for region in dict.fromkeys(inner) if region not in found]
        found |= dict.fromkeys(inner)
    return list(found)


def _checked(op: Op, count: int) -> Iterator[int]:
    fields = op.attrs.fields if isinstance(op.attrs, RawAttrs) else vars(op.attrs)
    for index in _numbers(fields):
        if not 0 <= index < count:
            raise GraphError(
                "an operator refers to a graph that does not exist",
                where=f"{op.name} ({op.label})",
                why=f"subgraph {index} of {count}",
            )
        yield index


def _numbers(fields: Mapping[str, object]) -> Iterator[int]:
    for name, value in fields.items():
        if not is_graph_field(name):
            continue
        if isinstance(value, int):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (item for item in value if isinstance(item, int))
