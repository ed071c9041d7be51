"""How time grows with input resolution, batch, depth and threads.

The networks are synthetic (`bench/synthetic.py`), in float and in int8. Resolution and batch are
changed by each engine's own resizing of one file. Writes bench/results/scaling-*.json, which the
next `python -m bench report` shows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench import load, machine
from bench.arguments import add_loaded, add_rounds, parser
from bench.scaling_result import Curves, Point
from bench.synthetic import KINDS, network
from circlet.comparison.compare import compare
from circlet.comparison.networks import described

ENGINES = ("litert", "openvino", "circlet")


@dataclass(frozen=True)
class Place:
    """One point of the space of networks and settings."""

    resolution: int = 96
    batch: int = 1
    depth: int = 8
    threads: int = 1


AXES = {
    "resolution": (32, 64, 128, 256),
    "batch": (1, 2, 4, 8),
    "depth": (2, 4, 8, 16, 32),
    "threads": (1, 2, 4, 8),
}


def main(arguments: Sequence[str]) -> None:
    """Measure every curve."""
    known = parser("scaling", __doc__)
    add_rounds(known, 7)
    known.add_argument("--axes", default=",".join(AXES), help="which curves, separated by commas")
    add_loaded(known)
    options = known.parse_args(arguments)
    watch = load.watch(options.loaded)
    points = []
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as folder:
        for point in measured(Path(folder), options.axes.split(","), options.rounds):
            times = "  ".join(f"{name} {us:.1f}" for name, us in point.us.items())
            print(f"{point.kind:5} {point.axis:10} {point.at:4}  {times} us", flush=True)
            points.append(point)
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    Curves(date, machine.facts() | watch.facts(), points).write()


def measured(folder: Path, axes: Sequence[str], rounds: int) -> Iterator[Point]:
    """The points of the axes, for every kind of network."""
    for kind in KINDS:
        for axis in axes:
            for at in AXES[axis]:
                if axis == "threads" and at > len(os.sched_getaffinity(0)):
                    continue
                place = replace(Place(), **{axis: at})
                yield Point(kind, axis, at, _times(folder, kind, place, rounds))


def _times(folder: Path, kind: str, place: Place, rounds: int) -> dict[str, float]:
    path = folder / f"{kind}-{place.depth}.tflite"
    if not path.exists():
        path.write_bytes(network(kind, place.depth, Place.resolution))
    shape: tuple[int, ...] = (place.batch, place.resolution, place.resolution, 3)
    found = compare(described(path), place.threads, rounds, engines=ENGINES, sizes={"x": shape})
    for engine, why in found.refused.items():
        print(f"{engine}: {why}")
    return {engine: median(times) for engine, times in found.rounds.items()}
