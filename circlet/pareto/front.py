"""The front of a search as data: its points, what else was measured, and where it is kept."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.errors import InputError
from circlet.json_files import check_format, read_json
from circlet.pareto.journal import configuration_of
from circlet.placement.problem import Configuration, Measurement
from circlet.placement.search.front import Point, hypervolume, non_dominated
from circlet.regular_files import write_file
from circlet.struct import Struct

FORMAT = "circlet-front"
VERSION = 1
_KEYS = {"groups": "units"}  # fields that have another name in files
BEST = ("time", "memory")


class FrontPoint(Struct):
    """A configuration and what it showed.

    Attributes:
        configuration: Placement and setting.
        measurement: Time and memory as measured; None where it was only predicted.
        predicted: Time in nanoseconds and memory in bytes on the model.
        single: The backend that all operators are placed on as far as it takes them, or "".
    """

    configuration: Configuration
    measurement: Measurement | None = None
    predicted: Point | None = None
    single: str = ""

    @property
    def point(self) -> Point:
        """Time and memory: as measured, else as predicted."""
        if self.measurement is not None:
            return self.measurement.point
        return self.predicted or (math.inf, math.inf)


@dataclass(frozen=True)
class ParetoFront:
    """What a search found.

    Attributes:
        model: Name of the network.
        backends: What operators could be placed on.
        groups: Source names that are placed together.
        points: The front, by rising time.
        others: All other points that were measured, failures included.
        best_single: The fastest single backend.
        strategy, seed, mode: How it was searched.
        space: How many configurations there are.
        evaluations: How many were measured.
        reference: The point that the hypervolume is measured from: time, memory.
        hypervolume: Of the front.
        predicted_hypervolume: Of the same points on the model; None where nothing was predicted.
        model_front_is_exact: Whether the model's front, where it was made, left out nothing.
        seconds: How long it took.
    """

    model: str
    backends: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    points: tuple[FrontPoint, ...]
    others: tuple[FrontPoint, ...] = ()
    best_single: FrontPoint | None = None
    strategy: str = ""
    seed: int = 0
    mode: str = "online"
    space: int = 0
    evaluations: int = 0
    reference: Point = (math.inf, math.inf)
    hypervolume: float = 0.0
    predicted_hypervolume: float | None = None
    model_front_is_exact: bool | None = None
    seconds: float = 0.0

    def best(self, wanted: str) -> FrontPoint:
        """The point of least time or memory, or by a ratio of both.

        Args:
            wanted: "time", "memory", or a number from 0 for time alone to 1 for memory alone, which
                weighs the logarithms of both.

        Raises:
            InputError: It is none of these, or there is no point.
        """
        if not self.points:
            fix = "measure with other backends or settings"
            raise InputError("a front has no points", where=self.model, fix=fix)
        try:
            ratio = {"time": 0.0, "memory": 1.0}.get(wanted) if wanted in BEST else float(wanted)
        except ValueError:
            ratio = None
        if ratio is None or not 0 <= ratio <= 1:
            fix = "give time, memory, or a number from 0 (time) to 1 (memory)"
            raise InputError("there is no such best point", where=wanted, fix=fix)
        return min(self.points, key=lambda point: _weighed(point.point, ratio))


def _weighed(point: Point, ratio: float) -> tuple[float, ...]:
    logs = [math.log(max(value, 1e-9)) for value in point]
    return (1 - ratio) * logs[0] + ratio * logs[1], *point


def front_of(points: Sequence[FrontPoint]) -> tuple[list[FrontPoint], list[FrontPoint]]:
    """The points that none beats, by rising time, and the others."""
    array = np.array([point.point for point in points], float).reshape(-1, 2)
    kept = non_dominated(array).tolist()
    rest = [point for number, point in enumerate(points) if number not in set(kept)]
    return [points[number] for number in kept], rest


def volume(points: Sequence[FrontPoint], reference: Point) -> float:
    """The hypervolume of some points."""
    return hypervolume(np.array([p.point for p in points], float).reshape(-1, 2), reference)


def as_dict(front: ParetoFront) -> dict[str, object]:
    """A front as plain data that JSON can hold."""
    best = front.best_single
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": front.model,
        "backends": list(front.backends),
        _KEYS["groups"]: [list(group) for group in front.groups],
        "points": [_point_dict(point) for point in front.points],
        "others": [_point_dict(point) for point in front.others],
        "best_single": None if best is None else _point_dict(best),
        "strategy": front.strategy,
        "seed": front.seed,
        "mode": front.mode,
        "space": front.space,
        "evaluations": front.evaluations,
        "reference": [_finite(value) for value in front.reference],
        "hypervolume": front.hypervolume,
        "predicted_hypervolume": front.predicted_hypervolume,
        "model_front_is_exact": front.model_front_is_exact,
        "seconds": front.seconds,
    }


def _point_dict(point: FrontPoint) -> dict[str, object]:
    measured = point.measurement
    fields = None if measured is None else measured._asdict()
    return {
        **point.configuration.as_dict(),
        "single": point.single,
        "predicted": point.predicted and [_finite(value) for value in point.predicted],
        "measurement": fields and {k: _finite(v) for k, v in fields.items()},
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_front(path: Path, front: ParetoFront) -> None:
    """Write a front as JSON, whole or not at all; raises FileError."""
    text = json.dumps(as_dict(front), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_file(path, text.encode(), 0o644, "a front")


def read_front(path: Path) -> ParetoFront:
    """The front of a file.

    Raises:
        FileError: It cannot be read.
        InputError: It holds no front.
    """
    return read_json(path, "a front", _front, "write one with circlet pareto MODEL -o FILE")


def _front(found: Mapping[str, object]) -> ParetoFront:
    check_format(found, FORMAT, VERSION)
    fields = {name: found[_KEYS.get(name, name)] for name in ParetoFront.__dataclass_fields__}
    fields["points"] = tuple(map(_point_of, fields["points"]))  # type: ignore[call-overload]
    fields["others"] = tuple(map(_point_of, fields["others"]))  # type: ignore[call-overload]
    best = fields["best_single"]
    fields["best_single"] = None if best is None else _point_of(best)  # type: ignore[arg-type]
    fields["backends"] = tuple(fields["backends"])  # type: ignore[arg-type]
    fields["groups"] = tuple(tuple(group) for group in fields["groups"])  # type: ignore[attr-defined]
    fields["reference"] = tuple(map(_number, fields["reference"]))  # type: ignore[call-overload]
    return ParetoFront(**fields)  # type: ignore[arg-type]


def _point_of(entry: Mapping[str, object]) -> FrontPoint:
    measured, predicted = entry["measurement"], entry["predicted"]
    measurement = None
    if isinstance(measured, dict):
        known = {**measured}
        for name in ("time_ns", "memory_bytes"):
            known[name] = _number(known[name])
        measurement = Measurement(**known)
    point = None
    if isinstance(predicted, list):
        point = _number(predicted[0]), _number(predicted[1])
    return FrontPoint(configuration_of(entry), measurement, point, str(entry["single"]))


def _number(value: object) -> float:
    return math.inf if value is None else float(value)  # type: ignore[arg-type]
