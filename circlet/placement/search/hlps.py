"""ONE's HLPS: explore around points of the front at growing Hamming distance, then exploit.

First whole kinds of operators are placed, then operators by themselves, starting from the front of
the first phase. Any number of backends, and the setting is one more symbol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from circlet.placement.search.drive import Evaluated, Strategy
from circlet.placement.search.front import Point
from circlet.placement.search.space import Genome, Space

_ITERATIONS = 3


def hlps(space: Space, seed: int = 0, *, iterations: int = _ITERATIONS) -> Strategy:
    """The strategy; `iterations` rounds over kinds, then over genes until nothing is new."""
    rng = np.random.default_rng(seed)
    state = _Search(space, rng)
    kinds = Space.of(space.problems, "kind")
    coarse = _genes_of(space, kinds)
    starts: list[Genome] = []
    for _ in range(iterations):
        yield from state.routine(starts, coarse)
        starts = state.done.front
    fine = [[gene] for gene in range(len(space.genes))]
    marked = -1
    while marked < len(state.marked):
        marked = len(state.marked)
        yield from state.routine(state.done.front, fine)


def _genes_of(space: Space, kinds: Space) -> list[list[int]]:
    """The genes of a space for each kind."""
    kind_of = {group: number for number, kind in enumerate(kinds.genes) for group in kind}
    found: list[list[int]] = [[] for _ in kinds.genes]
    for number, gene in enumerate(space.genes):
        found[kind_of[gene[0]]].append(number)
    return [genes for genes in found if genes]


class _Search:
    """Marks persist from routine to routine; what was visited does not."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self.marked: set[Genome] = set()
        self.done = Evaluated()

    def routine(self, starts: Sequence[Genome], symbols: Sequence[Sequence[int]]) -> Strategy:
        """One pass over what the starts lead to."""
        space = self._space
        queue: deque[Genome] = deque()
        if starts:
            for genome in starts:
                self._queue(queue, self._variants(genome, symbols))
        else:
            self._queue(queue, [_uniform(space, symbols, self._rng)])
        visited: set[Genome] = set()
        is_explored: dict[Genome, bool] = {}
        while queue:
            genome = queue.popleft()
            before = set(self.done.front)
            (point,) = yield [genome]
            self._tell(genome, point, before, is_explored)
            for member in self.done.front:
                if member in visited:
                    continue
                visited.add(member)
                if is_explored.get(member, True):
                    for distance in range(1, len(symbols) + 1):
                        self._queue(queue, self._at(member, distance, symbols))
                else:
                    self._queue(queue, self._variants(member, symbols))
                    is_explored[member] = True

    def _tell(
        self, genome: Genome, point: Point, before: set[Genome], is_explored: dict[Genome, bool]
    ) -> None:
        """Take down a point: one that replaces others is exploited, one beside them explored."""
        self.done.points[genome] = point
        front = set(self.done.front)
        if genome in front:
            is_explored[genome] = not before - front

    def _queue(self, queue: deque[Genome], genomes: Sequence[Genome]) -> None:
        for genome in genomes:
            if genome not in self.marked:
                self.marked.add(genome)
                queue.append(genome)

    def _at(self, genome: Genome, distance: int, symbols: Sequence[Sequence[int]]) -> list[Genome]:
        """Variants at random places: each other backend by its distance from the present one."""
        chosen = self._rng.choice(len(symbols), distance, replace=False)
        count = len(self._space.backends)
        found = []
        for step in range(1, count):
            genes = list(genome)
            for symbol in chosen:
                for gene in symbols[symbol]:
                    genes[gene + 1] = (genes[gene + 1] - step) % count
            found.append(self._space.mended(genes))
        return found

    def _variants(self, genome: Genome, symbols: Sequence[Sequence[int]]) -> list[Genome]:
        """All that differ in one symbol, or in the setting."""
        found = []
        for symbol in symbols:
            for backend in range(len(self._space.backends)):
                genes = list(genome)
                for gene in symbol:
                    genes[gene + 1] = backend
                found.append(self._space.mended(genes))
        settings = range(len(self._space.problems))
        found += [self._space.mended((setting, *genome[1:])) for setting in settings]
        return [other for other in dict.fromkeys(found) if other != genome]


def _uniform(space: Space, symbols: Sequence[Sequence[int]], rng: np.random.Generator) -> Genome:
    """A random genome in which the genes of a symbol agree as far as they can."""
    genes = list(space.random(rng))
    for symbol in symbols:
        for gene in symbol:
            genes[gene + 1] = genes[symbol[0] + 1]
    return space.mended(genes)
