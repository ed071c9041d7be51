"""Partitions: maximal convex sets of ops that one backend runs in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from circlet.ir import Graph, Op, Tensor


@dataclass(frozen=True)
class Partition:
    """Ops of one backend, in execution order, with what flows in and out.

    Attributes:
        backend: Name of the backend.
        ops: The ops in execution order.
        inputs: Computed tensors (or graph inputs) that it reads and does not produce.
        outputs: Tensors that it produces and that others, or the graph's caller, read.
    """

    backend: str
    ops: tuple[Op, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def partition(graph: Graph, placement: Mapping[Op, str]) -> list[Partition]:
    """Cut a graph into partitions that run one after the other.

    Collects every op of the current backend whose operands are ready, then changes to the backend
    of the first op that waits; each set is convex because it is closed under readiness.
    """
    waiting = list(graph.ops)
    ready = {t for t in graph.used_tensors() if t.is_constant or t.is_variable}
    ready |= set(graph.inputs)
    groups: list[tuple[str, list[Op]]] = []
    while waiting:
        backend = placement[waiting[0]]
        taken = _take_ready(waiting, ready, placement, backend)
        waiting = [op for op in waiting if op not in taken]
        groups.append((backend, list(taken)))
    return [_with_edges(graph, backend, ops) for backend, ops in groups]


def _take_ready(
    waiting: list[Op], ready: set[Tensor], placement: Mapping[Op, str], backend: str
) -> dict[Op, None]:
    taken: dict[Op, None] = {}
    for op in waiting:
        operands_ready = all(t is None or t in ready for t in op.inputs)
        if placement[op] == backend and operands_ready:
            taken[op] = None
            ready.update(op.outputs)
    return taken


def _with_edges(graph: Graph, backend: str, ops: list[Op]) -> Partition:
    inside = set(ops)
    made = {t: None for op in ops for t in op.outputs}
    read = {t: None for op in ops for t in op.inputs if t is not None and not t.is_constant}
    outside_readers = {t for op in graph.ops if op not in inside for t in op.inputs}
    wanted = outside_readers | set(graph.outputs)
    return Partition(
        backend,
        tuple(ops),
        tuple(t for t in read if t not in made),
        tuple(t for t in made if t in wanted),
    )
