"""Where partitions that are to run side by side are cut: heavy branches, and levels.

A fork is an op, or the network's inputs, from which several ops go on; the op that all paths from
it meet in again, its immediate post-dominator, is the join. What lies between falls into branches
that no edge connects. Those of a fork are worth cutting if the work beside the largest is large.

The level of an op is how often backends change on a path to it: what waits for another backend is
cut from what does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from circlet.ir import Graph, Op, Tensor
from circlet.ops.state import successors
from circlet.ops.work import work_of, work_of_graph
from circlet.plan.partition import Partition

_LEAST_WORK = 2_000_000  # elementary operations, some 0.1 ms: well above what it takes to hand over
_LEAST_SHARE = 0.005  # of the whole network's work
_HAND_OVER = 200_000  # what one more partition costs, in the same unit
_MOST_BINS = 4
_MOST_FORKS = 8
_VISITS_PER_OP = 32  # so that nested forks do not make the search quadratic
_END = -1  # stands for an op behind all others


@dataclass(frozen=True)
class _Region:
    """The bins that the branches of a fork were packed into, and the work that they take away."""

    bins: tuple[tuple[int, ...], ...]
    gain: int


def branches(graph: Graph) -> dict[Op, int]:
    """A number, 1 or more, for the ops of each branch that is worth a partition of its own.

    Ops of one number are connected with no op of another number of the same fork; all others are
    left out. Graphs whose ops are in no order, or that have no such branches, have none.
    """
    links = _links(graph)
    if links is None or len(graph.ops) < 2:
        return {}
    work = [_work(op) for op in graph.ops]
    least = max(_LEAST_WORK, int(_LEAST_SHARE * sum(work)))
    search = _Search(links, work, least)
    regions = sorted(search.regions(), key=lambda region: -region.gain)
    numbers: dict[Op, int] = {}
    taken: set[int] = set()
    chosen = 0
    for region in regions:
        members = {position for own in region.bins for position in own}
        if chosen == _MOST_FORKS or members & taken:
            continue
        taken |= members
        chosen += 1
        for own in region.bins:
            number = len(set(numbers.values())) + 1
            numbers.update((graph.ops[position], number) for position in own)
    return numbers


def levels(graph: Graph, backend_of: Mapping[Op, str]) -> dict[Op, int]:
    """How often backends change at most on the paths to each op of a graph that is in order."""
    producers = graph.producers()
    before: dict[Op, list[Op]] = {}
    for first, second in successors(graph.ops):
        before.setdefault(second, []).append(first)
    found: dict[Op, int] = {}
    for op in graph.ops:
        made = [producers[t] for t in op.inputs if t in producers]
        found[op] = max(
            (
                found.get(each, 0) + (backend_of[each] != backend_of[op])
                for each in (*made, *before.get(op, ()))
            ),
            default=0,
        )
    return found


def longest_path(parts: Sequence[Partition]) -> int:
    """The work, hand-overs included, on the longest path through partitions."""
    makers: dict[Tensor, int] = {}
    length: list[int] = []
    for number, part in enumerate(parts):
        start = max((length[makers[t]] for t in part.inputs if t in makers), default=0)
        length.append(start + work_of_ops(part.ops) + _HAND_OVER)
        state = (t for t in part.inputs if t.is_variable)
        makers.update(dict.fromkeys((*part.outputs, *state), number))
    return max(length, default=0)


def _work(op: Op) -> int:
    return work_of(op) + sum(work_of_graph(region) for region in op.regions)


def work_of_ops(ops: Iterable[Op]) -> int:
    """The elementary operations of ops, and of the graphs that they run, loops once."""
    return sum(map(_work, ops))


def _links(graph: Graph) -> list[list[int]] | None:
    """Positions of the ops that wait for each op; None where one comes before its operands."""
    positions = {op: index for index, op in enumerate(graph.ops)}
    producers = graph.producers()
    found: list[dict[int, None]] = [{} for _ in graph.ops]
    pairs = [(producers[t], op) for op in graph.ops for t in op.inputs if t in producers]
    for first, second in (*pairs, *successors(graph.ops)):
        before, after = positions[first], positions[second]
        if before > after:
            return None
        if before != after:
            found[before][after] = None
    return [list(row) for row in found]


class _Search:
    """Finds what lies between forks and their joins.

    Args:
        links: For each op, in order, the ops that wait for it.
        work: Of each op.
        least: The least work that is worth another partition.
    """

    def __init__(self, links: Sequence[list[int]], work: Sequence[int], least: int) -> None:
        self._links, self._work, self._least = links, work, least
        entered = {after for row in links for after in row}
        self._first = [op for op in range(len(links)) if op not in entered]
        self._joins = self._post_dominators()
        self._sums = [0]
        for own in work:
            self._sums.append(self._sums[-1] + own)
        self._visits = _VISITS_PER_OP * len(links)

    def regions(self) -> Iterator[_Region]:
        """The regions whose branches are worth it, the network's inputs first."""
        if len(self._first) > 1:
            join = self._common(self._first)
            yield from self._region(0, self._first, join)
        for fork, after in enumerate(self._links):
            if len(after) > 1:
                yield from self._region(fork, after, self._joins[fork])

    def _post_dominators(self) -> list[int]:
        """For each op the first that all paths from it go through, `_END` where there is none."""
        self._joins = [_END] * len(self._links)
        for op in reversed(range(len(self._links))):
            self._joins[op] = self._common(self._links[op])
        return self._joins

    def _common(self, ops: Sequence[int]) -> int:
        """The first op that all paths from all of these go through; one of them may be it."""
        if not ops:
            return _END
        met = ops[0]
        for other in ops[1:]:
            while met != other:
                if _END in (met, other):
                    return _END
                if met < other:
                    met = self._joins[met]
                else:
                    other = self._joins[other]
        return met

    def _region(self, fork: int, after: Sequence[int], join: int) -> Iterator[_Region]:
        end = len(self._links) if join == _END else join
        if self._sums[end] - self._sums[fork] < 2 * self._least or self._visits <= 0:
            return
        parts = self._components(after, join)
        bins = self._packed(parts)
        loads = sorted(sum(self._work[op] for op in own) for own in bins)
        if len(loads) > 1 and loads[-2] >= self._least:
            yield _Region(tuple(tuple(sorted(own)) for own in bins), sum(loads[:-1]))

    def _components(self, after: Sequence[int], join: int) -> list[list[int]]:
        """What paths from the fork reach before the join, in sets that no edge connects."""
        inside = [op for op in after if op != join]
        seen = set(inside)
        parent = {op: op for op in inside}
        for op in inside:  # it grows
            self._visits -= 1
            for reader in self._links[op]:
                if reader == join:
                    continue
                if reader not in seen:
                    seen.add(reader)
                    parent[reader] = reader
                    inside.append(reader)
                parent[_root(parent, reader)] = _root(parent, op)
        sets: dict[int, list[int]] = {}
        for op in inside:
            sets.setdefault(_root(parent, op), []).append(op)
        return list(sets.values())

    def _packed(self, parts: Sequence[list[int]]) -> list[list[int]]:
        """Branches in a few bins, each with the least loaded; one alone where it is too light."""
        loaded = [(sum(self._work[op] for op in part), part) for part in parts]
        heavy = sum(1 for load, _ in loaded if load >= self._least)
        bins: list[tuple[int, list[int]]] = [(0, []) for _ in range(max(1, min(heavy, _MOST_BINS)))]
        for load, part in sorted(loaded, key=lambda pair: -pair[0]):
            index = min(range(len(bins)), key=lambda number: bins[number][0])
            bins[index] = (bins[index][0] + load, bins[index][1] + part)
        return [own for _, own in bins if own]


def _root(parent: dict[int, int], op: int) -> int:
    while parent[op] != op:
        parent[op] = parent[parent[op]]
        op = parent[op]
    return op
