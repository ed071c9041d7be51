"""The graphs that a node runs, as graphs with inputs for all that they read from outside."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.formats.onnx.node import Node
from circlet.ir import Graph, Tensor


def branches(node: Node, names: Sequence[str]) -> tuple[list[Graph], list[Tensor]]:
    """Graphs of attributes, and the values from outside that are their inputs, in one order."""
    importers = []
    for name in names:
        if name not in node.attributes:
            raise node.wrong(f"{node.kind} lacks its graph {name}")
        importers.append(node.graph.inner(node.attributes[name]))
        importers[-1].run()
    captured = list(dict.fromkeys(outer for inner in importers for outer in inner.captured))
    for inner in importers:
        inner.graph.inputs += [_input(inner.captured, outer) for outer in captured]
        inner.graph.tensors = list(inner.graph.used_tensors())
    graphs = [inner.graph for inner in importers]
    node.graph.state.graphs += graphs
    return graphs, captured


def _input(captured: dict[Tensor, Tensor], outer: Tensor) -> Tensor:
    """A graph's input for a value from outside, be it read there or not."""
    if outer in captured:
        return captured[outer]
    unread = outer.like()
    unread.has_rank = outer.has_rank
    return unread
