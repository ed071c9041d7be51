"""Problems with random costs, small enough to try every placement."""

from __future__ import annotations

import itertools

import numpy as np

from circlet.placement.problem import Crossing, Group, Problem, Setting, Step

SHAPES = ("chain", "residual", "graph", "forest")


def _after(rng: np.random.Generator, group: int, shape: str) -> set[int]:
    """The groups that a group reads."""
    if not group:
        return set()
    if shape == "residual":  # blocks of four: two branches from the first to the last
        back = ((1,), (1,), (2,), (1, 2))[group % 4]
        return {group - step for step in back}
    if shape == "graph":
        return {int(n) for n in rng.integers(max(0, group - 3), group, 2)}
    if shape == "forest":
        return set() if rng.random() < 0.3 else {int(rng.integers(0, group))}
    return {group - 1}


def random_problem(
    seed: int, groups: int, backends: int = 3, shape: str = "chain", executor: str = "linear"
) -> Problem:
    """Operators that take 1 to 1000 ns; one in ten is refused by a backend."""
    rng = np.random.default_rng(seed)
    steps = [Step(group, tuple(sorted(_after(rng, group, shape)))) for group in range(groups)]
    readers: dict[int, list[int]] = {}
    for group, step in enumerate(steps):
        for before in step.after:
            readers.setdefault(before, []).append(group)
    values = tuple(
        Crossing(writer, tuple(read), int(rng.integers(1, 9)) * 100)
        for writer, read in sorted(readers.items())
    )
    time = rng.integers(1, 1000, (groups, backends)).astype(float)
    time[rng.random(time.shape) < 0.1] = np.inf
    time[np.arange(groups), rng.integers(0, backends, groups)] = 500.0
    return Problem(
        tuple(Group((f"op {n}",), f"KIND_{n % 3}", 100 * (n % 2)) for n in range(groups)),
        ("first", "second", "third", "fourth")[:backends],
        Setting(executor=executor),
        time,
        rng.integers(0, 1000, (groups, backends)).astype(float),
        tuple(steps),
        values,
        rng.integers(0, 300, (len(values), backends, backends)).astype(float),
        rng.integers(0, 200, backends).astype(float),
        rng.integers(0, 2000, backends).astype(float),
        1000.0,
    )


def every_choice(problem: Problem) -> np.ndarray:
    """(N, G) all placements."""
    return np.array(list(itertools.product(*map(np.flatnonzero, problem.allowed))))
