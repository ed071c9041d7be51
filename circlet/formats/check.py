"""Structure of a graph as read: one producer per tensor, an order to run in, no recursion."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from circlet.errors import GraphError, LimitError
from circlet.ir import BlockwiseQuant, Graph, Model, Op, Tensor
from circlet.limits import Limits


def check_producers(graph: Graph) -> None:
    """Refuse a tensor that two operators write, or that is written although it is given."""
    producers: dict[Tensor, Op] = {}
    inputs = set(graph.inputs)
    for op in graph.ops:
        for tensor in op.outputs:
            if tensor in producers:
                raise _conflict(op, tensor, f"{producers[tensor].name} writes it too")
            if tensor.is_constant and tensor.size_bytes:
                raise _conflict(op, tensor, "it is a constant")
            if tensor in inputs:
                raise _conflict(op, tensor, "it is an input of the graph")
            producers[tensor] = op


def _conflict(op: Op, tensor: Tensor, why: str) -> GraphError:
    return GraphError(
        "an operator writes a tensor that it must not write",
        where=f"{op.name} ({op.label}), tensor {tensor.name}",
        why=why,
    )


def check_scale_tensors(tensors: Sequence[Tensor]) -> None:
    """Refuse block quantisation whose scales are said to lie in a tensor that does not exist."""
    for tensor in tensors:
        details = tensor.quant.details if tensor.quant else None
        if isinstance(details, BlockwiseQuant) and not 0 <= details.scales_tensor < len(tensors):
            raise GraphError(
                "the scales of a tensor lie in a tensor that does not exist",
                where=tensor.name,
                why=f"tensor {details.scales_tensor} of {len(tensors)}",
            )


def order(graph: Graph) -> None:
    """Put the ops into an order in which each runs after those that it reads from.

    The file's order is kept where it is one, and as far as possible where it is not.
    """
    waits = _dependencies(graph.ops)
    if all(before < op for op, earlier in enumerate(waits) for before in earlier):
        return
    graph.ops = [graph.ops[index] for index in _sorted(waits, graph.ops)]


def _dependencies(ops: Sequence[Op]) -> list[set[int]]:
    writers = {tensor: index for index, op in enumerate(ops) for tensor in op.outputs}
    return [{writers[t] for t in op.inputs if t is not None and t in writers} for op in ops]


def _sorted(waits: list[set[int]], ops: Sequence[Op]) -> list[int]:
    readers: list[list[int]] = [[] for _ in ops]
    for index, earlier in enumerate(waits):
        for before in earlier:
            readers[before].append(index)
    left = [len(earlier) for earlier in waits]
    ready = [index for index, count in enumerate(left) if not count]
    heapify(ready)
    done: list[int] = []
    while ready:
        index = heappop(ready)
        done.append(index)
        for reader in readers[index]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready, reader)
    if len(done) < len(ops):
        stuck = [op for op, count in zip(ops, left, strict=True) if count]
        raise GraphError(
            "operators wait for each other in a circle",
            where=f"{stuck[0].name} ({stuck[0].label})",
            why=", ".join(op.name for op in stuck[:8]),
        )
    return done


def check_calls(model: Model, limits: Limits) -> None:
    """Refuse recursion and deep nesting."""
    places = {graph: index for index, graph in enumerate(model.graphs)}
    calls = [
        sorted({places[region] for op in graph.ops for region in op.regions})
        for graph in model.graphs
    ]
    depths: dict[int, int] = {}
    for start in range(len(calls)):
        _walk(start, calls, depths, model)
    if max(depths.values()) > limits.call_depth:
        raise LimitError(
            "graphs call each other too deeply",
            why=f"{max(depths.values())} levels, the limit is {limits.call_depth}",
        )


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
