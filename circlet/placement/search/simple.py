"""Brute force, and random sampling: what every other strategy is compared with."""

from __future__ import annotations

import numpy as np

from circlet.placement.search.drive import Strategy
from circlet.placement.search.space import Genome, Space

_BATCH = 16


def brute_force(space: Space, seed: int = 0) -> Strategy:
    """Every genome, in the order of its number; the seed changes nothing."""
    size = space.size
    for start in range(0, size, _BATCH):
        yield [space.genome(n) for n in range(start, min(start + _BATCH, size))]


def random_search(space: Space, seed: int = 0) -> Strategy:
    """Different genomes at random, each setting as often as the others."""
    rng = np.random.default_rng(seed)
    seen: set[Genome] = set()
    while len(seen) < space.size:
        genome = space.random(rng)
        if genome not in seen:
            seen.add(genome)
            yield [genome]
