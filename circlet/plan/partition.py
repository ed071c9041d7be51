"""Partitions: maximal convex sets of ops that one backend runs in one go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from circlet.errors import GraphError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.state import successors

_NOTHING: Mapping[Op, object] = {}
_Group = tuple[str, object]


class Ports(NamedTuple):
    """What the ops of a partition read and write that has room for every size of a run.

    Attributes:
        inputs: For each input of the partition a tensor, then counts that are given to it.
        outputs: For each output a tensor, then counts that it finds.
        input_sizes, output_sizes: For each axis of each of these tensors the number of the count
            that says how much of it a run fills, given ones first; -1 where all of it is filled.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Partition:
    """Ops of one backend, in execution order, with what flows in and out.

    Attributes:
        backend: Name of the backend.
        ops: The ops in execution order.
        inputs: Computed tensors (or graph inputs) that it reads and does not produce.
        outputs: Tensors that it produces and that others, or the graph's caller, read.
        in_place: Whether results may take the memory of inputs that nothing reads afterwards.
        ports: What its ops read and write in the place of inputs and outputs whose sizes a run
            decides; None where there are none, or where its backend takes them as they are.
    """

    backend: str
    ops: tuple[Op, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    in_place: bool = True
    ports: Ports | None = None

    @property
    def read(self) -> tuple[Tensor, ...]:
        """The tensors that its ops read and do not produce."""
        return self.ports.inputs if self.ports else self.inputs

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors of its ops that somebody else reads."""
        return self.ports.outputs if self.ports else self.outputs

    def graph(self) -> Graph:
        """The partition as a graph of its own, over the same tensors."""
        inputs = [tensor for tensor in self.read if not tensor.is_variable]
        graph = Graph(self.backend, inputs, [*self.written], [*self.ops])
        inner = (tensor for op in self.ops for tensor in op.intermediates)
        graph.tensors = list(dict.fromkeys((*graph.used_tensors(), *inner)))
        return graph


def partition(
    graph: Graph, placement: Mapping[Op, str], apart: Mapping[Op, object] = _NOTHING
) -> list[Partition]:
    """Cut a graph into partitions that may run one after the other.

    Collects every op of the current backend whose operands are ready, then changes to the backend
    of the first ready op; each set is convex because it is closed under readiness.

    Args:
        apart: Marks of ops, which are to share partitions with those of an equal mark only.

    Raises:
        GraphError: Some ops can never run: they form a cycle, or read what nothing writes.
    """
    backends = set(placement.values())
    if len(backends) == 1 and not apart and _is_in_order(graph):
        return _with_edges(graph, placement, [graph.ops])
    queue = _Ready(graph, {op: (backend, apart.get(op)) for op, backend in placement.items()})
    groups: list[list[Op]] = []
    while (group := queue.first_group()) is not None:
        groups.append(list(queue.drain(group)))
    if queue.waiting:
        op = next(op for op in graph.ops if op in queue.waiting)
        raise GraphError("an operator can never run", where=op.name, why="its inputs never come")
    return _with_edges(graph, placement, groups)


def _is_in_order(graph: Graph) -> bool:
    """Whether every op comes after those that compute what it reads."""
    known = set(graph.inputs)
    for op in graph.ops:
        for tensor in op.inputs:
            if not (tensor is None or tensor in known or tensor.is_constant or tensor.is_variable):
                return False
        known.update(op.outputs)
    return True


class _Ready:
    """Ops whose operands are computed, by backend and mark, in the order of the graph.

    Attributes:
        waiting: How many operands and earlier users of its variables each op still waits for; ops
            leave when they are taken.
    """

    def __init__(self, graph: Graph, group_of: Mapping[Op, _Group]) -> None:
        self._group_of = group_of
        self._consumers = graph.consumers()
        self._positions = {op: index for index, op in enumerate(graph.ops)}
        self._ops = graph.ops
        self._heaps: dict[_Group, list[int]] = {}
        given = {t for t in graph.used_tensors() if t.is_constant or t.is_variable}
        given |= set(graph.inputs)
        self.waiting = {op: len({*op.inputs} - given - {None}) for op in graph.ops}
        self._after: dict[Op, list[Op]] = {}
        for first, second in successors(graph.ops):
            self._after.setdefault(first, []).append(second)
            self.waiting[second] += 1
        for op, missing in self.waiting.items():
            if not missing:
                self._push(op)

    def first_group(self) -> _Group | None:
        """The backend and mark of the ready op that comes first, or None."""
        heads = ((heap[0], group) for group, heap in self._heaps.items() if heap)
        return min(heads, default=(0, None))[1]

    def drain(self, group: _Group) -> Iterator[Op]:
        """Take all ops of a backend and mark that are ready or become ready on the way."""
        heap = self._heaps[group]
        while heap:
            op = self._ops[heappop(heap)]
            del self.waiting[op]
            self._finish(op)
            yield op

    def _finish(self, op: Op) -> None:
        readers = [r for t in op.outputs if not t.is_variable for r in self._consumers.get(t, ())]
        for reader in readers + self._after.get(op, []):
            self.waiting[reader] -= 1
            if not self.waiting[reader]:
                self._push(reader)

    def _push(self, op: Op) -> None:
        heappush(self._heaps.setdefault(self._group_of[op], []), self._positions[op])


def _with_edges(
    graph: Graph, placement: Mapping[Op, str], groups: Sequence[Sequence[Op]]
) -> list[Partition]:
    group_of = {op: number for number, ops in enumerate(groups) for op in ops}
    wanted = set(graph.outputs)
    producers = graph.producers()
    for op in graph.ops:
        wanted |= {
            t for t in op.inputs if t in producers and group_of[producers[t]] != group_of[op]
        }
    parts = []
    for ops in groups:
        made = {t: None for op in ops for t in op.outputs}
        read = {t: None for op in ops for t in op.inputs if t is not None and not t.is_constant}
        inputs = tuple(t for t in read if t not in made)
        outputs = tuple(t for t in made if t in wanted)
        parts.append(Partition(placement[ops[0]], tuple(ops), inputs, outputs))
    return parts
