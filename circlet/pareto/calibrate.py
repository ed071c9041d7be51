"""What backends hold as soon as they are used, learnt from measuring each of them by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from circlet.placement.search.front import Point
from circlet.placement.search.space import Genome, Space


def with_fixed_bytes(space: Space, measured: Mapping[Genome, Point]) -> Space:
    """The space whose model of memory agrees with single backends as they were measured.

    What all of them hold beyond the prediction is part of what any placement needs; the rest is
    that backend's own, and is counted once for every placement that uses it. Backends that were
    not measured, or failed, are left as they are.
    """
    beyond: dict[int, list[float]] = {}
    for genome, (_, memory) in measured.items():
        used = set(space.choice(genome).tolist())
        if len(used) == 1 and np.isfinite(memory):
            predicted = float(space.predicted([genome])[0, 1])
            beyond.setdefault(used.pop(), []).append(memory - predicted)
    if not beyond:
        return space
    median = {backend: float(np.median(values)) for backend, values in beyond.items()}
    common = min(median.values())
    problems = []
    for problem in space.problems:
        fixed = problem.fixed_bytes.copy()
        for backend, more in median.items():
            fixed[backend] += more - common
        base = max(0.0, problem.base_bytes + common)
        problems.append(replace(problem, fixed_bytes=fixed, base_bytes=base))
    return replace(space, problems=tuple(problems))
