"""Nodes behind those whose results they read, which not every tool writes."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from circlet.formats.onnx.checked import all_graphs


def sort_nodes(proto: Any) -> None:
    """Bring the nodes of all graphs and functions of a model into an order in which they can run.

    Those that stand where they can run stay in the order of the file. Converters to half precision
    append the casts of inputs; ONNX Runtime sorts them as well.
    """
    for body in (proto.graph, *proto.functions):
        for graph in all_graphs(body):
            needed = _needed(graph)
            if all(max(before, default=-1) < place for place, before in enumerate(needed)):
                continue
            order = _order(needed)
            if len(order) == len(needed):  # else some read each other's results
                nodes = [graph.node[place] for place in order]
                moved = type(graph)(node=nodes).node
                del graph.node[:]
                graph.node.extend(moved)


def _needed(graph: Any) -> list[set[int]]:
    """The places of the nodes that each node of a graph reads results of."""
    made = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    return [{made[name] for name in _read(node) if name in made} for node in graph.node]


def _read(node: Any) -> Iterator[str]:
    """The names that a node reads, those in its graphs included."""
    yield from node.input
    for attribute in node.attribute:
        inner = ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)
        for graph in (part for body in inner for part in all_graphs(body)):
            for reader in graph.node:
                yield from reader.input
            yield from (value.name for value in graph.output)


def _order(needed: list[set[int]]) -> list[int]:
    """The places in an order in which they can run; of those that can, the first comes first."""
    waiting = [len(before) for before in needed]
    readers: list[list[int]] = [[] for _ in needed]
    for place, before in enumerate(needed):
        for source in before:
            readers[source].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    return order
