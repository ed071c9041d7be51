"""One producer for each tensor, and an order to run in."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from circlet.errors import GraphError
from circlet.ir.graph import Graph, Op, Tensor


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


def order(graph: Graph) -> None:
    """Put the ops into an order in which each runs after those that it reads from.

    The given order is kept where it is one, and as far as possible where it is not.
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
