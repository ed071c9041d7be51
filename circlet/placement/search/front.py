"""Points that no other beats, and how much of the plane they do: both coordinates are minimised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Point = tuple[float, float]


def non_dominated(points: np.ndarray) -> np.ndarray:
    """Numbers of the points (N, 2) that none beats, by the first coordinate; one of equal ones.

    A point beats another that is nowhere less and somewhere more. Points with a coordinate that is
    not finite never count.
    """
    finite = np.flatnonzero(np.isfinite(points).all(1))
    order = finite[np.lexsort((finite, points[finite, 1], points[finite, 0]))]
    second = points[order, 1]
    best = np.minimum.accumulate(np.concatenate([[np.inf], second[:-1]])) if len(order) else second
    return order[second < best]


def hypervolume(points: np.ndarray, reference: Point) -> float:
    """The area between the points (N, 2) and a reference point that is worse than they are.

    Points that are not better than the reference in both coordinates add nothing.
    """
    inside = points[(points < np.array(reference)).all(1)] if len(points) else points
    front = inside[non_dominated(inside)] if len(inside) else inside
    if not len(front):
        return 0.0
    above = np.concatenate([[reference[1]], front[:-1, 1]])
    return float(((reference[0] - front[:, 0]) * (above - front[:, 1])).sum())


def reference_point(points: np.ndarray, margin: float = 0.1) -> Point:
    """The worst of the points (N, 2) in each coordinate, and a margin of their range.

    Where all have the same coordinate, the margin is that part of it.
    """
    finite = points[np.isfinite(points).all(1)]
    if not len(finite):
        return 1.0, 1.0
    low, high = finite.min(0), finite.max(0)
    extent = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    worst = high + margin * extent
    return float(worst[0]), float(worst[1])


def improvement(front: np.ndarray, points: np.ndarray, reference: Point) -> np.ndarray:
    """(N,) how much hypervolume each of the points (N, 2) would add to a front (F, 2)."""
    kept = front[non_dominated(front)] if len(front) else np.empty((0, 2))
    first = np.concatenate([[-np.inf], kept[:, 0], [np.inf]])
    second = np.concatenate([[np.inf], kept[:, 1], [-np.inf]])
    left = np.maximum(first[None, :-1], points[:, :1])
    right = np.minimum(first[None, 1:], reference[0])
    height = np.minimum(second[None, :-1], reference[1]) - points[:, 1:]
    return (np.maximum(right - left, 0.0) * np.maximum(height, 0.0)).sum(1)


def as_array(points: Sequence[Point]) -> np.ndarray:
    """The points as (N, 2) floats."""
    return np.array(points, float).reshape(len(points), 2)
