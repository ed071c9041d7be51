"""NSGA-II and SPEA2, by pymoo: the population is measured generation by generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.placement.search.drive import Strategy
from circlet.placement.search.space import Genome, Space

_POPULATION = 24
_WORST = 1e30  # what fails; pymoo's distances know no infinity


def nsga2(space: Space, seed: int = 0) -> Strategy:
    """Fast non-dominated sorting and crowding distance (Deb and others, 2002)."""
    from pymoo.algorithms.moo.nsga2 import NSGA2

    return _evolved(space, seed, NSGA2)


def spea2(space: Space, seed: int = 0) -> Strategy:
    """Strength Pareto (Zitzler, Laumanns and Thiele, 2001)."""
    from pymoo.algorithms.moo.spea2 import SPEA2

    return _evolved(space, seed, SPEA2)


def _evolved(space: Space, seed: int, kind: Any) -> Strategy:
    from pymoo.core.evaluator import Evaluator
    from pymoo.core.problem import Problem as Task
    from pymoo.operators.crossover.ux import UniformCrossover
    from pymoo.problems.static import StaticProblem

    genes = 1 + len(space.genes)
    upper = [len(space.problems) - 1, *[len(space.backends) - 1] * (genes - 1)]
    task = Task(n_var=genes, n_obj=2, xl=np.zeros(genes), xu=np.array(upper), vtype=int)
    rng = np.random.default_rng(seed)
    start = np.array([space.random(rng) for _ in range(_POPULATION)])
    algorithm = kind(
        pop_size=_POPULATION,
        sampling=start,
        crossover=UniformCrossover(),
        mutation=_mutation(upper),
        eliminate_duplicates=True,
    )
    algorithm.setup(task, seed=seed, verbose=False)
    while algorithm.has_next():
        asked = algorithm.ask()
        if asked is None or not len(asked):
            return
        points = yield [_genome(space, row) for row in asked.get("X")]
        values = np.minimum(np.array(points, float).reshape(-1, 2), _WORST)
        Evaluator().eval(StaticProblem(task, F=values), asked)
        algorithm.tell(infills=asked)


def _genome(space: Space, row: np.ndarray) -> Genome:
    return space.mended([round(float(value)) for value in row])


def _mutation(upper: Sequence[int]) -> Any:
    """An operator that gives each gene another value with the probability of one in all genes."""
    from pymoo.core.mutation import Mutation

    highest = np.array(upper)

    class OtherBackend(Mutation):  # type: ignore[misc]
        def _do(self, problem: object, rows: np.ndarray, **known: Any) -> np.ndarray:
            rng = known.get("random_state") or np.random.default_rng(0)
            drawn = rng.integers(0, highest + 1, rows.shape)
            return np.where(rng.random(rows.shape) < 1 / rows.shape[1], drawn, rows)

    return OtherBackend()
