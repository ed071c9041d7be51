"""Circlet's own strategy: measure along the model's front, correct the model, look around.

It starts from single backends, from list schedules and from the exact front of the model. In turn
it learns what was measured, and asks for the genomes that promise the most hypervolume: of the
model's front, and of the neighbours of what was measured to be best.
"""

from __future__ import annotations

import numpy as np

from circlet.placement.search.correction import Correction
from circlet.placement.search.drive import Evaluated, Strategy
from circlet.placement.search.front import (
    Point,
    as_array,
    improvement,
    reference_point,
)
from circlet.placement.search.schedule import list_schedule
from circlet.placement.search.space import Genome, Space

_FIRST = 4  # points of the model's front that are measured before anything is learnt
_BATCH = 2
_POOL = 2_000  # genomes that are thought about at a time,
_POOL_GENES = 500_000  # and fewer of them in networks of many operators
_CURIOUS = 0.1  # how often a neighbour is measured that promises nothing


def auto(space: Space, seed: int = 0) -> Strategy:
    """The strategy; it goes on until everything that it knows of is measured."""
    rng = np.random.default_rng(seed)
    done = Evaluated()
    front, _ = space.likely_front
    pool = dict.fromkeys([*front, *_schedules(space), *space.single_backends()])
    yield from _told(done, _spread(space, front, _FIRST))
    yield from _told(done, _best_singles(space))
    model = Correction(space)
    for _ in range(space.size):
        model.learn(done.points)
        pool.update(dict.fromkeys(_around(space, model, done, rng)))
        left = [genome for genome in pool if genome not in done.points]
        if not left:
            return
        pool = dict.fromkeys([*done.points, *left[-_most(space) :]])
        yield from _told(done, _promising(model, done, left, rng))


def _told(done: Evaluated, genomes: list[Genome]) -> Strategy:
    """Ask for genomes, and take down their points."""
    points = yield genomes
    done.points.update(zip(genomes, points, strict=True))


def _schedules(space: Space) -> list[Genome]:
    pairs = enumerate(space.problems)
    return [space.genome_of(setting, list_schedule(problem)) for setting, problem in pairs]


def _spread(space: Space, front: list[Genome], count: int) -> list[Genome]:
    """Some genomes of a front, evenly spread over it, its ends among them."""
    places = np.linspace(0, len(front) - 1, min(count, len(front))).round().astype(int)
    return [front[place] for place in np.unique(places)]


def _best_singles(space: Space) -> list[Genome]:
    """Of each backend that runs alone the setting that is predicted to be fastest."""
    singles = space.single_backends()
    times = space.predicted(singles)[:, 0]
    best: dict[tuple[int, ...], int] = {}
    for number in np.argsort(times, kind="stable"):
        best.setdefault(singles[number][1:], int(number))
    return [singles[number] for number in best.values()]


def _around(
    space: Space, model: Correction, done: Evaluated, rng: np.random.Generator
) -> list[Genome]:
    """Neighbours of the front that was measured, and neighbours of the most promising of these."""
    near = [other for genome in done.front for other in space.neighbours(genome)]
    near = [genome for genome in dict.fromkeys(near) if genome not in done.points]
    near = _some(near, _most(space), rng)
    if not near:
        return []
    gains = _gains(model, done, near)
    best = [near[i] for i in np.argsort(-gains, kind="stable")[:_BATCH]]
    further = [other for genome in best for other in space.neighbours(genome)]
    if len(space.genes) * _POOL <= _POOL_GENES:
        return near + further
    return near + _some(further, _most(space), rng)


def _most(space: Space) -> int:
    """How many genomes are thought about at a time."""
    return min(_POOL, max(_BATCH, _POOL_GENES // len(space.genes)))


def _some(genomes: list[Genome], most: int, rng: np.random.Generator) -> list[Genome]:
    """As many genomes at most, drawn at random."""
    if len(genomes) <= most:
        return genomes
    return [genomes[i] for i in sorted(rng.choice(len(genomes), most, replace=False))]


def _promising(
    model: Correction, done: Evaluated, left: list[Genome], rng: np.random.Generator
) -> list[Genome]:
    """The genomes that would add most to the front, each given those before it."""
    predicted = model.predicted(left)
    points = list(done.points.values())
    found: list[Genome] = []
    for _ in range(min(_BATCH, len(left))):
        front = as_array(points)
        gains = improvement(_finite(front), predicted, reference_point(np.vstack([front])))
        gains[[left.index(genome) for genome in found]] = -1.0
        number = int(gains.argmax())
        if gains[number] <= 0 or rng.random() < _CURIOUS:
            number = _nearest(predicted, front, gains >= 0, rng)
        found.append(left[number])
        points.append(_point(predicted[number]))
    return list(dict.fromkeys(found))


def _gains(model: Correction, done: Evaluated, genomes: list[Genome]) -> np.ndarray:
    front = as_array(list(done.points.values()))
    return improvement(_finite(front), model.predicted(genomes), reference_point(front))


def _finite(points: np.ndarray) -> np.ndarray:
    return points[np.isfinite(points).all(1)]


def _point(row: np.ndarray) -> Point:
    return float(row[0]), float(row[1])


def _nearest(
    predicted: np.ndarray, front: np.ndarray, open_: np.ndarray, rng: np.random.Generator
) -> int:
    """One of the open genomes whose points lie least behind the front, in parts of it."""
    finite = _finite(front)
    if not len(finite):
        return int(rng.choice(np.flatnonzero(open_)))
    ratio = (predicted[:, None] / np.maximum(finite[None], 1e-9)).max(2).min(1)
    behind = np.where(open_, ratio, np.inf)
    near = np.argsort(behind, kind="stable")[: min(5, int(open_.sum()))]
    return int(near[rng.integers(len(near))])
