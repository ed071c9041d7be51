"""How far predictions miss: each measured operator predicted from the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.costs.fit import LEAST_NS
from circlet.costs.known import Known
from circlet.costs.signature import Signature

OPERATOR, NETWORK = "operator", "network"
ALL = "all families"


@dataclass(frozen=True)
class Misses:
    """Ratios of predicted to measured times in one family.

    Attributes:
        left_out: What predictions did not know: the `OPERATOR` itself, or all operators of the
            `NETWORK` that it is part of.
        count: How many operators.
        median: The median ratio: more than 1 where predictions are too long.
        worst: The ratio, or its inverse where that is larger, that nine in ten do not exceed.
    """

    backend: str
    threads: int
    family: str
    left_out: str
    count: int
    median: float
    worst: float


def without_operator(known: Known, backend: str, threads: int) -> list[Misses]:
    """Each operator predicted from all others of its family, where that is fitted by itself."""
    found: dict[str, list[float]] = {}
    for name, fit in known.fits.families().items():
        found[name] = list(fit.ratios())
    return _summed(found, backend, threads, OPERATOR)


def without_network(
    known: Known, networks: Iterable[Sequence[Signature]], backend: str, threads: int
) -> list[Misses]:
    """Each operator predicted from other networks, and not at all from its own.

    An operator that is in several networks counts in each, and in each its time is unknown.
    """
    found: dict[str, list[float]] = {}
    for signatures in networks:
        own = {signature.key: signature for signature in signatures}
        fits = known.fits.without(own)
        for signature in own.values():
            measured, predicted = known.measured(signature), fits.predict(signature)
            if measured is not None and predicted is not None and measured.ns >= LEAST_NS:
                ratio = predicted.ns / measured.ns
                found.setdefault(signature.family, []).append(ratio)
    return _summed(dict(sorted(found.items())), backend, threads, NETWORK)


def _summed(
    found: dict[str, list[float]], backend: str, threads: int, left_out: str
) -> list[Misses]:
    """A row for each family, and one for all of them."""
    whole = [ratio for ratios in found.values() for ratio in ratios]
    rows = [*found.items(), *([(ALL, whole)] if whole else [])]
    return [
        Misses(backend, threads, name, left_out, len(ratios), *_quantiles(ratios))
        for name, ratios in rows
    ]


def _quantiles(ratios: Sequence[float]) -> tuple[float, float]:
    given = np.maximum(np.array(ratios), 1e-9)
    return float(np.median(given)), float(np.quantile(np.maximum(given, 1 / given), 0.9))
