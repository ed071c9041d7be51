"""Problems with random costs, small enough to try every placement."""

from __future__ import annotations

import itertools

import numpy as np

from circlet.placement.problem import Crossing, Problem, Setting, Step, Unit

SHAPES = ("chain", "residual", "graph", "forest")


def _after(rng: np.random.Generator, unit: int, shape: str) -> set[int]:
    """The units that a unit reads."""
    if not unit:
        return set()
    if shape == "residual":  # blocks of four: two branches from the first to the last
        return {0: {unit - 1}, 1: {unit - 1}, 2: {unit - 2}, 3: {unit - 1, unit - 2}}[unit % 4]
    if shape == "graph":
        return {int(n) for n in rng.integers(max(0, unit - 3), unit, 2)}
    if shape == "forest":
        return set() if rng.random() < 0.3 else {int(rng.integers(0, unit))}
    return {unit - 1}


def random_problem(
    seed: int, units: int, backends: int = 3, shape: str = "chain", executor: str = "linear"
) -> Problem:
    """Operators that take 1 to 1000 ns; one in ten is refused by a backend."""
    rng = np.random.default_rng(seed)
    steps = [Step(unit, tuple(sorted(_after(rng, unit, shape)))) for unit in range(units)]
    readers: dict[int, list[int]] = {}
    for unit, step in enumerate(steps):
        for before in step.after:
            readers.setdefault(before, []).append(unit)
    values = tuple(
        Crossing(writer, tuple(read), int(rng.integers(1, 9)) * 100)
        for writer, read in sorted(readers.items())
    )
    time = rng.integers(1, 1000, (units, backends)).astype(float)
    time[rng.random(time.shape) < 0.1] = np.inf
    time[np.arange(units), rng.integers(0, backends, units)] = 500.0
    return Problem(
        tuple(Unit((f"op {unit}",), f"KIND_{unit % 3}", 100 * (unit % 2)) for unit in range(units)),
        ("first", "second", "third", "fourth")[:backends],
        Setting(executor=executor),
        time,
        rng.integers(0, 1000, (units, backends)).astype(float),
        tuple(steps),
        values,
        rng.integers(0, 300, (len(values), backends, backends)).astype(float),
        rng.integers(0, 200, backends).astype(float),
        rng.integers(0, 2000, backends).astype(float),
        1000.0,
    )


def every_choice(problem: Problem) -> np.ndarray:
    """(N, U) all placements."""
    return np.array(list(itertools.product(*map(np.flatnonzero, problem.allowed))))
