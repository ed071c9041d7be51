"""Which operators of two networks do the same work: by origin, name, weights and place."""

from __future__ import annotations

import hashlib
from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.ir import Model, Op, Tensor

_LEAST_WEIGHTS = 16
Key = Callable[[Op], Hashable]


@dataclass(eq=False)
class Match:
    """Operators of one network and those of the other that do their work.

    Attributes:
        first, second: Of each network, in its order; several where operators were fused or split.
        by: What they were recognised by: origin, name, weights, place or shape.
    """

    first: list[Op]
    second: list[Op]
    by: str


@dataclass(eq=False)
class Matching:
    """All matches, in the order of the first network, and what has none."""

    matches: list[Match] = field(default_factory=list)
    only_first: list[Op] = field(default_factory=list)
    only_second: list[Op] = field(default_factory=list)


def match(first: Model, second: Model) -> Matching:
    """Match the operators of all graphs of two networks, in time linear in their number."""
    return _Matcher(first, second).run()


class _Matcher:
    """State of one matching: what is left of each network, and what was found."""

    def __init__(self, first: Model, second: Model) -> None:
        self._models = first, second
        self._left: tuple[dict[Op, None], dict[Op, None]] = (
            dict.fromkeys(op for graph in first.graphs for op in graph.ops),
            dict.fromkeys(op for graph in second.graphs for op in graph.ops),
        )
        self._order = {op: number for ops in self._left for number, op in enumerate(ops)}
        self._match_of: dict[Op, Match] = {}
        self._found: list[Match] = []

    def run(self) -> Matching:
        self._pair("origin", lambda op: (_sources(op), op.label))
        self._group(_sources)
        self._absorb(0, 1)
        self._absorb(1, 0)
        self._pair("name", lambda op: (_name(op), op.label) if _name(op) else None)
        self._pair("name", lambda op: _name(op) or None)
        self._pair("weights", lambda op: _weights(op) and (_weights(op), op.label))
        self._pair("name", lambda op: (_first_name(op), op.label) if _name(op) else None)
        self._spread(_has_equal_sizes)
        self._pair("shape", _shape)
        self._spread(_has_equal_sizes)
        self._spread(_has_equal_ranks)
        self._found.sort(key=lambda found: self._order[found.first[0]])
        return Matching(self._found, list(self._left[0]), list(self._left[1]))

    def _join(self, first: Sequence[Op], second: Sequence[Op], by: str) -> None:
        found = Match(list(first), list(second), by)
        self._found.append(found)
        for side, ops in enumerate((first, second)):
            for op in ops:
                self._match_of[op] = found
                del self._left[side][op]

    def _buckets(self, key: Key) -> Iterable[tuple[list[Op], list[Op]]]:
        """What is left of both networks with equal keys."""
        found: dict[Hashable, tuple[list[Op], list[Op]]] = {}
        for side, ops in enumerate(self._left):
            for op in ops:
                wanted = key(op)
                if wanted is not None:
                    found.setdefault(wanted, ([], []))[side].append(op)
        return [bucket for bucket in found.values() if all(bucket)]

    def _pair(self, by: str, key: Key) -> None:
        """Pair ops of equal keys in their order, where there are as many of both."""
        for first, second in self._buckets(key):
            if len(first) == len(second):
                for one, other in zip(first, second, strict=True):
                    self._join([one], [other], by)

    def _group(self, key: Key) -> None:
        """Put ops of equal keys side by side, however many there are of each."""
        for first, second in self._buckets(key):
            self._join(first, second, "origin")

    def _absorb(self, side: int, other: int) -> None:
        """Give ops that are left to the op of the other network that took over their sources."""
        takers: dict[str, list[Op]] = {}
        every = (op for graph in self._models[other].graphs for op in graph.ops)
        for op in every:
            for source in _sources(op):
                takers.setdefault(source, []).append(op)
        for op in list(self._left[side]):
            wanted = _sources(op)
            near = [t for t in takers.get(next(iter(wanted)), ()) if wanted <= _sources(t)]
            if not near:
                continue
            sizes = [(len(_sources(t)), not self._is_fed(side, op, t)) for t in near]
            taker = near[sizes.index(min(sizes))]
            found = self._match_of.get(taker)
            if found is None:
                pair = ([op], [taker]) if side == 0 else ([taker], [op])
                self._join(*pair, "origin")
                continue
            insort(found.first if side == 0 else found.second, op, key=self._order.__getitem__)
            self._match_of[op] = found
            del self._left[side][op]

    def _is_fed(self, side: int, op: Op, taker: Op) -> bool:
        """Whether an op's results are read by what an op of the other network is matched with."""
        found = self._match_of.get(taker)
        ops = () if found is None else found.first if side == 0 else found.second
        return any(tensor in reader.inputs for reader in ops for tensor in op.outputs)

    def _spread(self, is_alike: Callable[[Op, Op], bool]) -> None:
        """Pair ops of one kind that read, or make, what paired ops make, or read."""
        waiting: deque[tuple[Tensor | None, Tensor | None]] = deque()
        (makers, readers), (other_makers, other_readers) = map(_links, self._models)
        for graph, twin in zip(self._models[0].graphs, self._models[1].graphs, strict=False):
            waiting += zip(graph.inputs, twin.inputs, strict=False)
            waiting += zip(graph.outputs, twin.outputs, strict=False)
        for found in self._found:
            waiting += _operands(found)
        while waiting:
            one, other = waiting.popleft()
            if one is None or other is None:
                continue
            near = list(zip(readers.get(one, ()), other_readers.get(other, ()), strict=False))
            if one in makers and other in other_makers:
                near.append((makers[one], other_makers[other]))
            for first, second in near:
                is_left = first in self._left[0] and second in self._left[1]
                if is_left and first.label == second.label and is_alike(first, second):
                    self._join([first], [second], "place")
                    waiting += _operands(self._found[-1])


def _links(model: Model) -> tuple[dict[Tensor, Op], dict[Tensor, list[Op]]]:
    makers: dict[Tensor, Op] = {}
    readers: dict[Tensor, list[Op]] = {}
    for graph in model.graphs:
        makers |= graph.producers()
        readers |= graph.consumers()
    return makers, readers


def _operands(found: Match) -> list[tuple[Tensor | None, Tensor | None]]:
    if len(found.first) != 1 or len(found.second) != 1:
        return []
    one, other = found.first[0], found.second[0]
    pairs: list[tuple[Tensor | None, Tensor | None]] = []
    pairs += zip(one.inputs, other.inputs, strict=False)
    pairs += zip(one.outputs, other.outputs, strict=False)
    return pairs


def _has_equal_sizes(one: Op, other: Op) -> bool:
    """Whether results have the same sizes, in whatever order the formats keep axes."""
    sizes = [[sorted(t.static_shape) for t in op.outputs] for op in (one, other)]
    return sizes[0] == sizes[1]


def _has_equal_ranks(one: Op, other: Op) -> bool:
    ranks = [[len(t.shape) for t in op.outputs] for op in (one, other)]
    return ranks[0] == ranks[1]


def _sources(op: Op) -> frozenset[str]:
    return frozenset(source.name for source in op.origin.sources)


def _name(op: Op) -> str:
    return op.outputs[0].name if op.outputs else ""


def _first_name(op: Op) -> str:
    """The name without those of the layers that converters fused into one, behind `;`."""
    return _name(op).partition(";")[0]


def _shape(op: Op) -> Hashable:
    return op.label, *((t.dtype.name, tuple(sorted(t.static_shape))) for t in op.outputs)


def _weights(op: Op) -> str | None:
    """A digest of an op's largest constant that is the same in every layout."""
    constants = [t.data for t in op.inputs if t is not None and t.data is not None]
    large = max(constants, key=lambda array: array.size, default=None)
    if large is None or large.size < _LEAST_WEIGHTS or large.dtype.hasobject:
        return None
    elements = np.sort(large, axis=None)
    return None if elements[0] == elements[-1] else hashlib.sha256(elements.tobytes()).hexdigest()
