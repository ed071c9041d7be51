"""A model of costs that learns from measurements: Bayesian linear regression of its residuals.

What each unit takes on each backend, each setting as a whole, partitions, transfers and what
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


class Correction:
    """Predictions of time and memory, corrected by what was measured.

    Attributes:
        space: What is predicted about.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._objectives = [Objective(problem) for problem in space.problems]
        self._rows: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._known: dict[Genome, tuple[np.ndarray, np.ndarray]] = {}
        self._predicted: dict[Genome, np.ndarray] = {}

    def learn(self, measured: Mapping[Genome, Point]) -> None:
        """Believe what was measured; points that are not finite teach nothing."""
        genomes = [g for g, point in measured.items() if np.isfinite(point).all()]
        self._rows, self._weights = [], []
        if not genomes:
            return
        points = np.array([measured[genome] for genome in genomes])
        predicted = self._model(genomes)
        for axis in (0, 1):
            features = self._features(genomes, axis)
            noise = (_NOISE * points[:, axis]) ** 2 + 1e-9
            covariance = features @ features.T + np.diag(noise)
            residual = points[:, axis] - predicted[:, axis]
            self._rows.append(features)
            self._weights.append(np.linalg.solve(covariance, residual))

    def predicted(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, 2) time and memory that are expected."""
        points = self._model(genomes)
        for axis, (rows, weights) in enumerate(zip(self._rows, self._weights, strict=True)):
            points[:, axis] += self._features(genomes, axis) @ (rows.T @ weights)
        return np.maximum(points, 1.0)

    def _features(self, genomes: Sequence[Genome], axis: int) -> np.ndarray:
        """(N, K) by how much each unknown moves a prediction, one standard deviation of it."""
        for genome in genomes:
            if genome not in self._known:
                self._known[genome] = self._row(genome, 0), self._row(genome, 1)
        return np.stack([self._known[genome][axis] for genome in genomes])

    def _model(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, 2) what the model predicts by itself."""
        new = [genome for genome in genomes if genome not in self._predicted]
        if new:
            self._predicted.update(zip(new, self.space.predicted(new), strict=True))
        return np.stack([self._predicted[genome] for genome in genomes])

    def _row(self, genome: Genome, axis: int) -> np.ndarray:
        problem, choice = self.space.problems[genome[0]], self.space.choice(genome)
        objective, units = self._objectives[genome[0]], np.arange(len(choice))
        count, settings = len(problem.backends), len(self.space.problems)
        costs = (problem.time_ns, problem.held_bytes)[axis][units, choice].astype(float)
        by_unit = np.zeros((len(units), count))
        by_unit[units, choice] = _UNIT * costs
        by_backend = np.zeros((settings, count))
        np.add.at(by_backend[genome[0]], choice, _BACKEND * costs)
        if axis == 0:
            counts = objective.partition_counts(choice[None])[0]
            shared = _EDGES * counts * np.maximum(problem.partition_ns, 1.0)
            rest = _EDGES * float(objective.transfers(choice[None])[0])
        else:
            used = np.bincount(choice, minlength=count) > 0
            shared = _EDGES * used * np.maximum(problem.fixed_bytes, problem.base_bytes)
            rest = _EDGES * float(objective.memory(choice[None])[0] - costs.sum())
        whole = np.zeros(settings)
        whole[genome[0]] = _WHOLE * costs.sum()
        return np.concatenate([by_unit.reshape(-1), by_backend.reshape(-1), shared, [rest], whole])
