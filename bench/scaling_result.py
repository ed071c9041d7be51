"""Scaling curves as data, and their form as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.classes import MachineClass
from bench.result import FOLDER, newest_file


@dataclass(frozen=True)
class Point:
    """Median microseconds by engine of one network at one place of an axis."""

    kind: str
    axis: str
    at: int
    us: Mapping[str, float]


@dataclass(frozen=True)
class Curves:
    """One run of `python -m bench scaling`."""

    date: str
    machine: Mapping[str, object]
    points: list[Point]

    def write(self) -> None:
        """Keep it as the newest run."""
        FOLDER.mkdir(exist_ok=True)
        target = FOLDER / f"scaling-{self.date.replace(':', '')}.json"
        target.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def newest(of: MachineClass | None = None) -> Curves | None:
    """The newest run, on a class of machines if that is given; None where there is none."""
    found = newest_file("scaling", of, FOLDER)
    if found is None:
        return None
    data = json.loads(found.read_text(encoding="utf-8"))
    points = [Point(**fields) for fields in data["points"]]
    return Curves(data["date"], data["machine"], points)
