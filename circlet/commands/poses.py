"""Poses: the key points of people, from the outputs of the usual pose networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.commands.objects import KeyPoint

Array = np.ndarray
BODY_POINTS = (
    *("nose", "left eye", "right eye", "left ear", "right ear", "left shoulder"),
    *("right shoulder", "left elbow", "right elbow", "left wrist", "right wrist", "left hip"),
    *("right hip", "left knee", "right knee", "left ankle", "right ankle"),
)
"""Key points in the order of COCO, which pose networks keep."""
LIMBS = (
    *((0, 1), (0, 2), (1, 3), (2, 4), (5, 6), (5, 7), (7, 9), (6, 8), (8, 10)),
    *((5, 11), (6, 12), (11, 12), (11, 13), (13, 15), (12, 14), (14, 16)),
)
"""Pairs of key points that a skeleton joins."""
_POINTS = len(BODY_POINTS)
_MULTI_POSE = 3 * _POINTS + 5  # key points, a box and a score
_RELATIVE = 2.0


@dataclass(frozen=True)
class Pose:
    """A person: a score, and 17 key points as parts of the picture's height and width."""

    score: float
    points: tuple[KeyPoint, ...]


def poses(
    arrays: Sequence[Array], input_shape: Sequence[int] = (), least_score: float = 0.0
) -> tuple[Pose, ...] | None:
    """People that the outputs, as real numbers, tell of; None where they are no pose network's.

    Known are MoveNet for one person and for several, PoseNet with and without its decoder.
    """
    found = _movenet(arrays)
    if found is None and len(input_shape) == 4:
        found = _decoded(arrays, input_shape) or _heat_maps(arrays, input_shape)
    if found is None:
        return None
    return tuple(pose for pose in found if pose.score >= least_score)


def _movenet(arrays: Sequence[Array]) -> list[Pose] | None:
    if len(arrays) != 1:
        return None
    shape = arrays[0].shape
    if shape == (1, 1, _POINTS, 3):
        return [_pose(arrays[0][0, 0, :, :2], arrays[0][0, 0, :, 2])]
    if len(shape) != 3 or shape[0] != 1 or shape[2] != _MULTI_POSE:
        return None
    rows = [row[: 3 * _POINTS].reshape(_POINTS, 3) for row in arrays[0][0]]
    return [
        _pose(points[:, :2], points[:, 2], float(row[-1]))
        for points, row in zip(rows, arrays[0][0], strict=True)
    ]


def _decoded(arrays: Sequence[Array], input_shape: Sequence[int]) -> list[Pose] | None:
    """Poses [1, N, 17, 2], scores of points [1, N, 17] and of poses [1, N], and their number."""
    if len(arrays) != 4 or arrays[0].ndim != 4 or arrays[0].shape[2:] != (_POINTS, 2):
        return None
    places, chances, scores, number = arrays
    most = places.shape[1]
    if chances.shape != (1, most, _POINTS) or scores.shape != (1, most) or number.size != 1:
        return None
    size = np.array(input_shape[1:3]) if np.nanmax(places) > _RELATIVE else np.ones(2)
    count = min(int(number.reshape(-1)[0]), most)
    return [_pose(places[0, i] / size, chances[0, i], float(scores[0, i])) for i in range(count)]


def _heat_maps(arrays: Sequence[Array], input_shape: Sequence[int]) -> list[Pose] | None:
    """Of heat maps [1, h, w, 17] and offsets [1, h, w, 34] the best place of each point."""
    by_width = {a.shape[-1]: a for a in arrays if a.ndim == 4 and a.shape[0] == 1}
    heat, offsets = by_width.get(_POINTS), by_width.get(2 * _POINTS)
    if heat is None or offsets is None or heat.shape[:3] != offsets.shape[:3]:
        return None
    rows, columns = heat.shape[1:3]
    if min(rows, columns) < 2:
        return None
    best = heat[0].reshape(-1, _POINTS).argmax(0)
    cell = np.stack(np.unravel_index(best, (rows, columns)), 1)
    points = np.arange(_POINTS)
    moved = offsets[0, cell[:, 0], cell[:, 1]]
    shift = np.stack([moved[points, points], moved[points, points + _POINTS]], 1)
    size = np.array(input_shape[1:3])
    stride = (size - 1) / (np.array([rows, columns]) - 1)
    chances = 1 / (1 + np.exp(-np.clip(heat[0, cell[:, 0], cell[:, 1], points], -50, 50)))
    return [_pose((cell * stride + shift) / size, chances)]


def _pose(places: Array, chances: Array, score: float | None = None) -> Pose:
    mean = float(np.mean(chances)) if score is None else score
    rows = zip(BODY_POINTS, places, chances, strict=True)
    points = tuple(KeyPoint(name, float(y), float(x), float(s)) for name, (y, x), s in rows)
    return Pose(mean, points)
