"""A model of costs that learns from measurements: Bayesian linear regression of its residuals.

What each group takes on each backend, each setting as a whole, partitions, transfers and what
backends hold are believed only so far. A measurement moves those that it is about, and so the
prediction of every other genome that shares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlet.placement.search.front import Point
from circlet.placement.search.objective import Objective
from circlet.placement.search.space import Genome, Space

_UNIT = 0.3  # standard deviations, in parts of what is predicted
_BACKEND = 0.3
_EDGES = 0.7
_WHOLE = 0.1
_NOISE = 0.01
_CHUNK = 256  # genomes whose features are held at a time


class Correction:
    """Predictions of time and memory, corrected by what was measured.

    Attributes:
        space: What is predicted about.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._objectives = [Objective(problem) for problem in space.problems]
        self._directions: list[np.ndarray] = []
        self._edges: dict[Genome, np.ndarray] = {}
        self._predicted: dict[Genome, np.ndarray] = {}

    def learn(self, measured: Mapping[Genome, Point]) -> None:
        """Believe what was measured; points that are not finite teach nothing."""
        genomes = [g for g, point in measured.items() if np.isfinite(point).all()]
        self._directions = []
        if not genomes:
            return
        points = np.array([measured[genome] for genome in genomes])
        predicted = self._model(genomes)
        for axis in (0, 1):
            features = self._features(genomes, axis)
            noise = (_NOISE * points[:, axis]) ** 2 + 1e-9
            covariance = features @ features.T + np.diag(noise)
            residual = points[:, axis] - predicted[:, axis]
            self._directions.append(features.T @ np.linalg.solve(covariance, residual))

    def predicted(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, 2) time and memory that are expected."""
        points = self._model(genomes)
        for start in range(0, len(genomes), _CHUNK):
            some = slice(start, start + _CHUNK)
            for axis, direction in enumerate(self._directions):
                points[some, axis] += self._features(genomes[some], axis) @ direction
        return np.maximum(points, 1.0)

    def _features(self, genomes: Sequence[Genome], axis: int) -> np.ndarray:
        """(N, K) by how much each unknown moves a prediction, one standard deviation of it."""
        edges = self._edges_of(genomes)
        settings = np.array([genome[0] for genome in genomes], np.int64)
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        for setting in np.unique(settings).tolist():
            mine = np.flatnonzero(settings == setting)
            choices = self.space.choices([genomes[i] for i in mine.tolist()])
            parts.append((mine, self._rows(setting, choices, edges[mine], axis)))
        found = np.empty((len(genomes), parts[0][1].shape[1]))
        for mine, rows in parts:
            found[mine] = rows
        return found

    def _edges_of(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, B + 2) partitions of each backend, time of transfers, and memory in all."""
        new = [genome for genome in dict.fromkeys(genomes) if genome not in self._edges]
        settings = np.array([genome[0] for genome in new], np.int64)
        for setting in np.unique(settings).tolist():
            mine = [new[i] for i in np.flatnonzero(settings == setting).tolist()]
            choices = self.space.choices(mine)
            objective = self._objectives[setting]
            counts = objective.partition_counts(choices)
            sums = objective.transfers(choices), objective.memory(choices)
            self._edges.update(zip(mine, np.column_stack([counts, *sums]), strict=True))
        return np.stack([self._edges[genome] for genome in genomes])

    def _model(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, 2) what the model predicts by itself."""
        new = [genome for genome in genomes if genome not in self._predicted]
        if new:
            self._predicted.update(zip(new, self.space.predicted(new), strict=True))
        return np.stack([self._predicted[genome] for genome in genomes])

    def _rows(self, setting: int, choices: np.ndarray, edges: np.ndarray, axis: int) -> np.ndarray:
        """(N, K) features of genomes of one setting, of their choices (N, G) of backends."""
        problem = self.space.problems[setting]
        rows, groups = np.arange(len(choices))[:, None], np.arange(choices.shape[1])
        count, settings = len(problem.backends), len(self.space.problems)
        costs = (problem.time_ns, problem.held_bytes)[axis][groups, choices].astype(float)
        by_group = np.zeros((*choices.shape, count))
        by_group[rows, groups, choices] = costs
        by_backend = np.zeros((len(choices), settings, count))
        by_backend[:, setting] = by_group.sum(1)
        if axis == 0:
            shared = edges[:, :count] * np.maximum(problem.partition_ns, 1.0)
            rest = edges[:, count]
        else:
            held = np.maximum(problem.fixed_bytes, problem.base_bytes)
            shared = _used(choices, count) * held
            rest = edges[:, count + 1] - costs.sum(1)
        whole = np.zeros((len(choices), settings))
        whole[:, setting] = _WHOLE * costs.sum(1)
        flat = _UNIT * by_group.reshape(len(choices), -1)
        by_backend = _BACKEND * by_backend.reshape(len(choices), -1)
        edge = _EDGES * np.column_stack([shared, rest])
        return np.concatenate([flat, by_backend, edge, whole], 1)


def _used(choices: np.ndarray, count: int) -> np.ndarray:
    """(N, B) whether each of some backends has any group."""
    return np.stack([(choices == backend).any(1) for backend in range(count)], 1)
