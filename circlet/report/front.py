"""A front of placements as a page shows it: points, and where each has the file's operators."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from circlet.errors import InputError
from circlet.pareto.front import FrontPoint, ParetoFront
from circlet.report.data import FrontItem, FrontPointItem, Report


@dataclass(frozen=True)
class _Places:
    """Numbers of backends, for each operator of the file; -1 where a placement has none."""

    names: tuple[str, ...]
    backends: tuple[str, ...]

    def item(self, point: FrontPoint, is_front: bool) -> FrontPointItem:
        """A point whose time and memory are finite."""
        measured, setting = point.measurement, point.configuration.setting
        numbers = {name: number for number, name in enumerate(self.backends)}
        placed = point.configuration.placement
        return FrontPointItem(
            us=point.point[0] / 1e3,
            low_us=measured.low_ns / 1e3 if measured and measured.runs else None,
            high_us=measured.high_ns / 1e3 if measured and measured.runs else None,
            predicted_us=point.predicted[0] / 1e3 if point.predicted else None,
            bytes=int(point.point[1]),
            threads=setting.threads,
            level=setting.level,
            executor=setting.executor,
            single=point.single,
            is_front=is_front,
            partitions=measured.partitions if measured else 0,
            backends=tuple(numbers.get(placed.get(name, ""), -1) for name in self.names),
        )


def with_front(report: Report, front: ParetoFront) -> Report:
    """The report with a front of its network.

    Raises:
        InputError: The front is of another network: none of its operators is in the report.
    """
    names = tuple(operator.name for operator in report.source.operators)
    known = {name for group in front.groups for name in group}
    if not known & set(names):
        raise InputError(
            "a front is of another network",
            where=front.model,
            why=f"it places no operator of {report.title}",
            fix="give the network that it was made for",
        )
    places = _Places(names, front.backends)
    rows = [(point, True) for point in front.points] + [(point, False) for point in front.others]
    items = tuple(places.item(p, is_front) for p, is_front in rows if all(map(_is_finite, p.point)))
    return replace(
        report,
        front=FrontItem(
            backends=front.backends,
            points=items,
            strategy=front.strategy,
            mode=front.mode,
            space=str(front.space),
            evaluations=front.evaluations,
            failed=len(rows) - len(items),
            hypervolume=front.hypervolume,
            reference_us=front.reference[0] / 1e3,
            reference_bytes=front.reference[1],
        ),
    )


def _is_finite(value: float) -> bool:
    return math.isfinite(value)
