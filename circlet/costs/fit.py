"""Times of operators that were not measured, predicted from those that were.

A family's time is `a + b*computing + c*data bytes + d*weight bytes + e*outputs` with coefficients
of 0 or more, fitted so that relative errors are least and strays count little. What it leaves of
the logarithm of the times is taken from measured operators of nearly the same size. How far
predictions without the operator itself miss says how wide the interval is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.costs.estimate import Estimate
from circlet.costs.signature import Features, Signature

Floats = npt.NDArray[np.float64]
FEWEST = 3
"""Measured operators that a family needs to be fitted by itself."""

LEAST_NS = 20.0
"""What an operator takes at the least that is computed by itself."""

_NEIGHBOURS = 4
_WIDTH = 0.7  # of the neighbourhood, in logarithms of sizes
_DOUBT = 0.25  # weight of no correction at all, which is all that is left far from any
_STRAY = 0.2  # relative error from which on a measurement counts less
_ROUNDS = 5
_MOST_REFITS = 48
_LEAST_SPREAD = 0.05
_UNKNOWN_SPREAD = float(np.log(4))  # of predictions from a single measurement
_FAR = 1.0  # logarithm of a ratio of sizes beyond which a prediction reaches out
_FAR_SPREAD = 0.25  # for each further such ratio
_COVERED = 0.9


class Sample(NamedTuple):
    """A measured operator."""

    signature: Signature
    ns: float


class Prediction(NamedTuple):
    """A time, and the logarithm of the ratio by which nine in ten miss it at most."""

    ns: float
    spread: float

    @property
    def estimate(self) -> Estimate:
        """The time with its interval."""
        ratio = float(np.exp(self.spread))
        return Estimate(self.ns, self.ns / ratio, self.ns * ratio)


def nonnegative(matrix: Floats, target: Floats) -> Floats:
    """The x of 0 or more with the least |matrix x - target| (Lawson and Hanson)."""
    size = matrix.shape[1]
    scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    scaled = matrix / scale
    gram, given = scaled.T @ scaled + 1e-12 * np.eye(size), scaled.T @ target
    found, free = np.zeros(size), np.zeros(size, bool)
    for _ in range(3 * size):
        slope = given - gram @ found
        if free.all() or slope[~free].max() <= 1e-9:
            break
        free[int(np.argmax(np.where(free, -np.inf, slope)))] = True
        found = _inside(gram, given, found, free)
    return found / scale


def _inside(gram: Floats, given: Floats, found: Floats, free: npt.NDArray[np.bool_]) -> Floats:
    """The least squares over the free columns, of which those that would turn negative leave."""
    while free.any():
        wanted = np.zeros_like(found)
        wanted[free] = np.linalg.solve(gram[np.ix_(free, free)], given[free])
        if wanted[free].min() > 0:
            return wanted
        falling = free & (wanted <= 0)
        step = np.min(found[falling] / np.maximum(found[falling] - wanted[falling], 1e-300))
        found = found + step * (wanted - found)
        free &= found > 1e-15
    return np.zeros_like(found)


def robust(matrix: Floats, target: Floats) -> Floats:
    """As `nonnegative`, but rows that the others contradict count less (Huber's weights)."""
    weights = np.ones(len(target))
    found = nonnegative(matrix, target)
    for _ in range(_ROUNDS):
        miss = np.abs(matrix @ found - target)
        weights = np.sqrt(np.minimum(1.0, _STRAY / np.maximum(miss, 1e-12)))
        found = nonnegative(matrix * weights[:, None], target * weights)
    return found


@dataclass(frozen=True)
class Fit:
    """The model of one family.

    Attributes:
        samples: What it was fitted to.
        coefficients: Of 1 and of each feature.
        left: The logarithm of the ratio of each measured time and the model's.
        spread: Of predictions of sizes that are near to measured ones.
    """

    samples: tuple[Sample, ...]
    coefficients: Floats
    left: Floats
    spread: float

    @staticmethod
    def of(samples: Sequence[Sample], *, alone: bool = False) -> Fit:
        """The model of one or more samples; `alone` leaves the spread unknown."""
        sizes = _terms([sample.signature.features for sample in samples])
        times = np.array([sample.ns for sample in samples])
        coefficients = robust(sizes / times[:, None], np.ones(len(times)))
        left = np.log(times / np.maximum(sizes @ coefficients, 1.0))
        fit = Fit(tuple(samples), coefficients, left, _UNKNOWN_SPREAD)
        if alone or len(samples) < 2:
            return fit
        misses = np.abs([np.log(ratio) for ratio in fit.ratios()])
        covered = min(1.0, _COVERED * (1 + 1 / len(samples)))  # the next one counts as well
        spread = float(np.quantile(misses, covered, method="higher"))
        spread *= 1 + len(samples) ** -0.5  # it is not known better than that itself
        return Fit(fit.samples, coefficients, left, max(spread, _LEAST_SPREAD))

    def predict(self, features: Features, without: int | None = None) -> Prediction:
        """The time of an operator; as if one sample were not there, where one is named."""
        model = max(float(_terms([features])[0] @ self.coefficients), 1.0)
        place = _logs([features])[0]
        known = _logs([sample.signature.features for sample in self.samples])
        apart = np.linalg.norm(known - place, axis=1)
        if without is not None:
            apart[without] = np.inf
        near = np.argsort(apart, kind="stable")[:_NEIGHBOURS]
        weights = np.exp(-((apart[near] / _WIDTH) ** 2))
        correction = float(weights @ self.left[near]) / (float(weights.sum()) + _DOUBT)
        beyond = max(0.0, float(apart.min()) - _FAR) if np.isfinite(apart.min()) else 0.0
        return Prediction(model * float(np.exp(correction)), self.spread + _FAR_SPREAD * beyond)

    def ratios(self) -> Iterator[float]:
        """Predicted by measured time of each sample, predicted from the others."""
        for number, sample in enumerate(self.samples):
            fit = self
            if len(self.samples) <= _MOST_REFITS:
                others = (*self.samples[:number], *self.samples[number + 1 :])
                fit = Fit.of(others, alone=True)
                yield fit.predict(sample.signature.features).ns / sample.ns
            else:
                yield fit.predict(sample.signature.features, number).ns / sample.ns


def _terms(rows: Sequence[Features]) -> Floats:
    return np.array([(1.0, *row) for row in rows])


def _logs(rows: Sequence[Features]) -> Floats:
    return np.log1p(np.array(rows))


@dataclass
class Fits:
    """The models of one backend at one number of threads.

    Operators are predicted by their family; where too little of it was measured, by what does
    the same with the same types, then by what does the same, then by everything.
    """

    samples: tuple[Sample, ...]
    _made: dict[tuple[str, str], Fit | None] = field(default_factory=dict)

    @staticmethod
    def of(samples: Iterable[Sample]) -> Fits:
        """Models of measured operators, without those that others' kernels compute on the way."""
        return Fits(tuple(sample for sample in samples if sample.ns >= LEAST_NS))

    def without(self, keys: Collection[str]) -> Fits:
        """The models as if some operators had not been measured."""
        return Fits(tuple(s for s in self.samples if s.signature.key not in keys))

    def predict(self, signature: Signature) -> Prediction | None:
        """The time of an operator; None where nothing at all was measured."""
        for level, value in _levels(signature):
            fit = self._fit(level, value)
            if fit is not None:
                return fit.predict(signature.features)
        return None

    def families(self) -> dict[str, Fit]:
        """The models of the families that are fitted by themselves."""
        names = dict.fromkeys(sample.signature.family for sample in self.samples)
        made = {name: self._fit("family", name) for name in sorted(names)}
        return {name: fit for name, fit in made.items() if fit is not None}

    def _fit(self, level: str, value: str) -> Fit | None:
        if (level, value) not in self._made:
            own = [s for s in self.samples if (level, value) in _levels(s.signature)]
            enough = len(own) >= (1 if level == "all" else FEWEST)
            self._made[level, value] = Fit.of(own) if enough else None
        return self._made[level, value]


def _levels(signature: Signature) -> tuple[tuple[str, str], ...]:
    return (
        ("family", signature.family),
        ("types", f"{signature.group} {signature.types}"),
        ("group", signature.group),
        ("all", ""),
    )
