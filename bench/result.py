"""What one run of the benchmark found, and its form as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from bench.classes import Bars, MachineClass, class_of
from bench.ratios import SMALL_US, mean_ratio, verdict
from circlet.comparison.ratios import Interval

FOLDER = Path(__file__).parent / "results"
VERSION = 1


@dataclass(frozen=True)
class Latency:
    """One network at one number of threads.

    Attributes:
        us: Median of the bound call, by engine.
        convenient_us: Median of the convenience call, by engine.
        best: The fastest peer, "" where none ran.
        ratio: Its time over Circlet's.
    """

    us: dict[str, float]
    convenient_us: dict[str, float] = field(default_factory=dict)
    best: str = ""
    ratio: Interval | None = None

    @property
    def is_small(self) -> bool:
        """Whether the best peer is so fast that calls are compared rather than kernels."""
        return bool(self.best) and self.us[self.best] < SMALL_US

    def verdict(self, bars: Bars) -> str:
        """ "met", "missed", or "" where nothing is compared."""
        if self.ratio is None:
            return ""
        return verdict(bars.least, self.us[self.best], self.us["circlet"], self.ratio)


@dataclass(frozen=True)
class Result:
    """All about one network.

    Attributes:
        latency: By number of threads.
        refused: Why engines did not run it.
        differences: Of the peers' outputs from Circlet's: the largest, in parts of the range and
            in steps of the integer type.
        open_ms: Time to open the file with nothing cached, by engine.
        starts: Fresh processes, by engine: `cold_ms`, `warm_ms`, `peak_mib`, `after_mib`;
            and `ratio` with `ratio_low` and `ratio_high`: LiteRT's warm starts over its own.
        compile_s: Time to compile with a warm toolchain.
        artifact_bytes: Size of the compiled artifact.
        slow: Where the time goes, for a network that misses its bar.
    """

    name: str
    kind: str
    macs: int
    bytes: int
    latency: dict[int, Latency] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    differences: dict[str, dict[str, float | str | None]] = field(default_factory=dict)
    open_ms: dict[str, float] = field(default_factory=dict)
    starts: dict[str, dict[str, float]] = field(default_factory=dict)
    compile_s: float | None = None
    artifact_bytes: int | None = None
    slow: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One run over networks, with all that is needed to judge it.

    `engines` are the settings of each engine, by class and number of threads.
    """

    machine: Mapping[str, object]
    settings: Mapping[str, object]
    peaks: Mapping[str, object]
    results: list[Result]
    date: str
    engines: dict[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> list[int]:
        """The numbers of threads that were measured."""
        return sorted({count for result in self.results for count in result.latency})

    @property
    def machine_class(self) -> MachineClass:
        """The class of the machine that it ran on."""
        return class_of(self.machine)

    def verdict(self, result: Result, threads: int) -> str:
        """Whether a network meets the bar of this class of machines; "" where nothing compares."""
        return result.latency[threads].verdict(self.machine_class.bars(threads))

    def compared(self, threads: int, *kinds: str) -> list[Result]:
        """The networks of some classes that are compared kernel by kernel: not the small ones."""
        return [
            result
            for result in self.results
            if result.kind in kinds
            and threads in result.latency
            and result.latency[threads].ratio is not None
            and not result.latency[threads].is_small
        ]

    def mean(self, threads: int, *kinds: str) -> float | None:
        """The geometric mean of the ratios of these networks."""
        ratios = [result.latency[threads].ratio for result in self.compared(threads, *kinds)]
        return mean_ratio([ratio.middle for ratio in ratios if ratio is not None])


def to_json(run: Run) -> str:
    """One line a network, numbers with four significant digits."""
    head = {"version": VERSION, "date": run.date, "machine": run.machine}
    head |= {"settings": run.settings, "peaks": run.peaks, "engines": run.engines}
    first = json.dumps(head, indent=1)[:-2]
    rows = ",\n".join(json.dumps(_compact(asdict(result))) for result in run.results)
    return f'{first},\n "results": [\n{rows}\n]}}\n'


def from_json(text: str) -> Run:
    """The run that `to_json` wrote.

    Raises:
        ValueError: It is another version's.
    """
    data = json.loads(text)
    if data["version"] != VERSION:
        raise ValueError(f"results of version {data['version']}, not {VERSION}")
    results = [_result(fields) for fields in data["results"]]
    head = (data["machine"], data["settings"], data["peaks"])
    return Run(*head, results, data["date"], data["engines"])


def _result(fields: dict[str, Any]) -> Result:
    latency = {int(threads): _latency(row) for threads, row in fields.pop("latency", {}).items()}
    slow = {int(threads): text for threads, text in fields.pop("slow", {}).items()}
    return Result(**fields, latency=latency, slow=slow)


def _latency(fields: dict[str, Any]) -> Latency:
    ratio = fields.pop("ratio", None)
    return Latency(**fields, ratio=None if ratio is None else Interval(**ratio))


def _compact(value: Any) -> Any:
    """Without what is empty or infinite, and with rounded numbers."""
    if isinstance(value, dict):
        inside = {str(key): _compact(item) for key, item in value.items()}
        return {key: item for key, item in inside.items() if item not in (None, {}, "")}
    if isinstance(value, float):
        return float(f"{value:.4g}") if isfinite(value) else None
    return value


def newest_file(name: str, of: MachineClass | None = None, folder: Path = FOLDER) -> Path | None:
    """The newest result of a kind: run, scaling, ..; of one class of machines if that is given."""
    for path in sorted(folder.glob(f"{name}-*.json"), reverse=True):
        if of is None or class_of(json.loads(path.read_text(encoding="utf-8"))["machine"]) == of:
            return path
    return None
