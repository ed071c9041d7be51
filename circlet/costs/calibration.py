"""From single measurements to sums: what borders cost, and what a whole network gains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from circlet.costs.fit import robust
from circlet.costs.rows import ALONE, WITHIN, Row, Whole

_UNDERCUT = 0.05  # of the operators may be
_LEAST_SHARE = 0.1  # of a time that is left for the operator: differences tell no less
_NOISE_NS = 500.0  # times below count as such in relative errors
_PARTITION_NS = 1000.0  # by which the cost of a partition may be wrong at the least
_TRUST = 0.1  # weight of what was known before, beside that of one network


class Line(NamedTuple):
    """A cost that grows with bytes.

    Attributes:
        ns: What it costs at the least.
        ns_per_byte: What each byte adds.
    """

    ns: float = 0.0
    ns_per_byte: float = 0.0

    def at(self, size: float) -> float:
        """Nanoseconds for so many bytes."""
        return self.ns + self.ns_per_byte * size


class Calibration(NamedTuple):
    """What makes single operators into networks.

    Attributes:
        factor: By which operators take less, or more, time in a network than alone.
        partition_ns: What a partition costs beside its operators.
    """

    factor: float = 1.0
    partition_ns: float = 0.0


def fitted_line(rows: Sequence[tuple[float, float]], errors: Sequence[float] | None = None) -> Line:
    """The line with least relative errors through sizes and nanoseconds; zero for no rows.

    Args:
        errors: By how much each time may be wrong; in proportion to it where none are given.
    """
    if not rows:
        return Line()
    sizes, times = np.array(rows, float).T
    weights = 1 / np.maximum(times if errors is None else np.array(errors), _NOISE_NS)
    terms = np.stack((np.ones_like(sizes), sizes), axis=1) * weights[:, None]
    return Line(*map(float, robust(terms, times * weights)))


def bounded(border: Line, rows: Iterable[Row]) -> Line:
    """A border that nearly no operator undercuts, which was measured alone with one of its own.

    Engines prepare what goes in and out of a pooling otherwise than of a convolution.
    """
    alone = [row for row in rows if row.way == ALONE]
    whole = [(row.ns, border.at(row.signature.features.data_bytes)) for row in alone]
    ratios = [ns / taken for ns, taken in whole if taken > 0]
    scale = min(1.0, float(np.quantile(ratios, _UNDERCUT))) if ratios else 1.0
    return Line(border.ns * scale, border.ns_per_byte * scale)


def net_ns(row: Row, border: Line) -> float:
    """The time of an operator without what the borders of its own partition cost."""
    if row.way == WITHIN:
        return row.ns
    return max(row.ns - border.at(row.signature.features.data_bytes), row.ns * _LEAST_SHARE)


def calibrated(wholes: Iterable[Whole], rows: Mapping[str, Row], border: Line) -> Calibration:
    """The factor and the cost of a partition by which whole networks come out best.

    Operators that were measured within a network are taken as they are. Without networks,
    operators are expected to take in one what they take alone.

    Args:
        rows: The measurements that count, by key.
    """
    scale = max(border.ns, _PARTITION_NS)
    terms = [(0.0, _TRUST / scale), (_TRUST, 0.0)]
    wanted = [_TRUST * border.ns / scale, _TRUST]
    for whole in wholes:
        sums = _sums(whole, rows, border)
        if sums is None or not whole.ns:
            continue
        alone, within = sums
        most = max(whole.ns, alone + within)  # one that gains much counts no more than others
        terms.append((alone / most, whole.partitions / most))
        wanted.append((whole.ns - within) / most)
    if len(wanted) == 2:
        return Calibration(1.0, border.ns)
    found = robust(np.array(terms), np.array(wanted))
    return Calibration(float(found[0]) or 1.0, float(found[1]))


def _sums(whole: Whole, rows: Mapping[str, Row], border: Line) -> tuple[float, float] | None:
    """Nanoseconds of the operators that were measured alone, and of those within networks.

    None where one of them was not measured.
    """
    sums = {ALONE: 0.0, WITHIN: 0.0}
    for key, count in whole.members:
        if key not in rows:
            return None
        sums[rows[key].way] += count * net_ns(rows[key], border)
    return sums[ALONE], sums[WITHIN]
