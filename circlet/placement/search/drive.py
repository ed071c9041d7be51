"""Drives a strategy: asks it for genomes, has them measured, tells it, until the budget is spent.

A strategy is a generator that yields genomes and is sent their points. The same genome is measured
once; whoever keeps what was measured can stop and start again, and gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.placement.search.front import Point, as_array, non_dominated
from circlet.placement.search.space import Genome, Space

Strategy = Generator[Sequence[Genome], Sequence[Point], None]
Measure = Callable[[Sequence[Genome]], Sequence[Point]]
_IDLE = 200


@dataclass
class Evaluated:
    """The genomes that were measured, in order, and their points."""

    points: dict[Genome, Point] = field(default_factory=dict)

    @property
    def front(self) -> list[Genome]:
        """Those that no other beats, by rising time."""
        genomes = list(self.points)
        return [genomes[i] for i in non_dominated(as_array(list(self.points.values())))]


def search(
    space: Space,
    strategy: Strategy,
    measure: Measure,
    budget: int,
    known: Mapping[Genome, Point] | None = None,
) -> Evaluated:
    """Measure what a strategy asks for, at most `budget` different genomes.

    Args:
        known: Genomes that were measured already, which are not part of the budget.
    """
    done = Evaluated(dict(known or {}))
    budget = min(budget + len(done.points), space.size)
    with_answers = _batches(space, strategy, done)
    for batch in with_answers:
        new = batch[: max(0, budget - len(done.points))]
        if new:
            points = measure(new)
            done.points.update(zip(new, map(_pair, points), strict=True))
        if len(done.points) >= budget:
            break
    strategy.close()
    return done


def _pair(point: Point) -> Point:
    return float(point[0]), float(point[1])


def _batches(space: Space, strategy: Strategy, done: Evaluated) -> Iterator[list[Genome]]:
    """What is to be measured next; ends with the strategy, or when it brings nothing new."""
    idle = 0
    try:
        asked = [space.mended(genome) for genome in next(strategy)]
        while idle < _IDLE:
            new = [g for g in dict.fromkeys(asked) if g not in done.points]
            idle = 0 if new else idle + 1
            if new:
                yield new
            answers = [done.points.get(g, (np.inf, np.inf)) for g in asked]
            asked = [space.mended(genome) for genome in strategy.send(answers)]
    except StopIteration:
        return
