"""The model of a network, set right by single backends as they were measured at each setting.

Operators are measured alone, or in other networks; what a backend makes of this network as a whole,
and what it holds as soon as it is used, its own run alone tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from circlet.placement.problem import Problem
from circlet.placement.search.front import Point
from circlet.placement.search.objective import Objective
from circlet.placement.search.space import Genome, Space

_MOST = 4.0  # times that operators of a backend may take of what was expected, or the inverse


def calibrated(space: Space, measured: Mapping[Genome, Point]) -> Space:
    """The space whose model agrees with single backends as they were measured.

    Settings at which a backend was not measured are corrected by what the others show of it;
    backends that were not measured at all, or failed, are left as they are.
    """
    finite = {genome: point for genome, point in measured.items() if np.isfinite(point).all()}
    if not finite:
        return space
    shape = len(space.problems), len(space.backends)
    ratios, beyond = np.full(shape, np.nan), np.full(shape, np.nan)
    purest = sorted(finite, key=lambda genome: len(set(space.choice(genome).tolist())))
    for genome in purest:
        problem, choice = space.problems[genome[0]], space.choice(genome)
        backend = int(np.bincount(choice).argmax())
        times = problem.time_ns * np.nan_to_num(ratios[genome[0]], nan=1.0)
        whole, memory = Objective(replace(problem, time_ns=times)).point(choice)
        own = times[choice == backend, backend].sum()
        if own > 0 and np.isnan(ratios[genome[0], backend]):
            left = finite[genome][0] - (whole - own)
            ratios[genome[0], backend] = np.clip(left / own, 1 / _MOST, _MOST)
        if (choice == backend).all():
            beyond[genome[0], backend] = finite[genome][1] - memory
    pairs = zip(space.problems, _filled(ratios), _filled(beyond), strict=True)
    return replace(space, problems=tuple(_corrected(*pair) for pair in pairs))


def _filled(found: np.ndarray) -> np.ndarray:
    """(S, B) what is known at each setting, else the median over the others; NaN for neither."""
    filled = found.copy()
    for backend in np.flatnonzero(~np.isnan(found).all(0)):
        column = found[:, backend]
        filled[np.isnan(column), backend] = np.nanmedian(column)
    return filled


def _corrected(problem: Problem, ratios: np.ndarray, beyond: np.ndarray) -> Problem:
    """A problem by (B,) ratios of times, and (B,) bytes that backends hold beyond what was told.

    What all of them hold beyond it is part of what any placement needs; the rest is that backend's
    own, and is counted once for every placement that uses it.
    """
    common = 0.0 if np.isnan(beyond).all() else float(np.nanmin(beyond))
    return replace(
        problem,
        time_ns=problem.time_ns * np.nan_to_num(ratios, nan=1.0),
        fixed_bytes=problem.fixed_bytes + np.nan_to_num(beyond - common, nan=0.0),
        base_bytes=max(0.0, problem.base_bytes + common),
    )
