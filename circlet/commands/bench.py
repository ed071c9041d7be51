"""What `circlet bench` does, as a function: a request in, plain data out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from circlet.commands.inspect import planned_copy, settled
from circlet.comparison.compare import Compared, compare
from circlet.comparison.engines import IN_NUMPY
from circlet.comparison.load import Watch, reason
from circlet.comparison.networks import described
from circlet.comparison.outputs import TOLERANCES
from circlet.comparison.ratios import Interval, interval, ratio_of
from circlet.compiler.planning import PlannedModel
from circlet.errors import BackendError, InputError
from circlet.formats import load
from circlet.options import Options, Shapes
from circlet.target.threads import usable_cores

OURS = "circlet"
WIDEST = 1.1
"""An interval whose upper end is so many times its lower one is too wide to be trusted."""


@dataclass(frozen=True)
class Peer:
    """An engine to compare with: how it is told, what is imported, how it is installed."""

    title: str
    module: str
    install: str
    engines: tuple[str, ...]


PEERS: Mapping[str, Peer] = {
    "litert": Peer(
        "LiteRT", "ai_edge_litert", "pip install ai-edge-litert", ("litert", "litert_cached")
    ),
    "openvino": Peer("OpenVINO", "openvino", "pip install openvino", ("openvino",)),
    "onnxruntime": Peer("ONNX Runtime", "onnxruntime", "pip install onnxruntime", ("onnxruntime",)),
}


@dataclass(frozen=True)
class BenchRequest:
    """What `circlet bench` is asked for.

    Attributes:
        against: Names of `PEERS`.
        rounds: In each of them every engine has its turn.
        runs: Runs of each engine in all; those of 25 ms a round where it is None.
        warmup: Runs that do not count.
        shapes: Sizes of inputs, by name, that are not to be those of the file.
    """

    model: Path
    against: tuple[str, ...] = ()
    threads: int | None = None
    rounds: int = 11
    runs: int | None = None
    warmup: int = 2
    shapes: Shapes = ()


@dataclass(frozen=True)
class EngineRow:
    """One engine on the network.

    Attributes:
        us: The median time of its rounds with its interval, in microseconds.
        ratio: Its time over Circlet's, round by round: above 1 Circlet is faster. None for Circlet.
        convenient_us: The call that its documentation shows first: arrays in, arrays out.
        open_ms: What it took to open the network.
        difference: The largest difference of its outputs from Circlet's, in parts of their range.
        note: What is odd about its outputs, or that it ran in numpy; "" where nothing is.
        version, settings: Its release, and all that is not its default.
    """

    engine: str
    us: Interval
    ratio: Interval | None
    convenient_us: float
    open_ms: float
    difference: float | None
    note: str
    version: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class BenchReport:
    """What was measured.

    Attributes:
        kind: The network's class: "fp32", "integer" or "hybrid".
        rows: Engines that ran, Circlet first.
        refused: Why others did not.
        missing: Peers that are not installed, and the command that installs them.
        noise: Why the figures cannot be trusted, or "".
    """

    model: str
    kind: str
    macs: int
    threads: int
    rounds: int
    rows: tuple[EngineRow, ...]
    refused: Mapping[str, str]
    missing: Mapping[str, str]
    noise: str

    @property
    def is_noisy(self) -> bool:
        """Whether the figures cannot be trusted."""
        return bool(self.noise)


def bench_network(request: BenchRequest) -> BenchReport:
    """Run a network by Circlet and by peers in turn, each in a process of its own.

    Raises:
        InputError: A peer or the input of a size is unknown.
        BackendError: Circlet itself did not run it.
        CircletError: The file cannot be read, or has no plan for these sizes.
    """
    unknown = [name for name in request.against if name not in PEERS]
    if unknown:
        fix = f"choose among {', '.join(PEERS)}"
        raise InputError("there is no such engine to compare with", where=unknown[0], fix=fix)
    options = Options(shapes=request.shapes)
    model = load(request.model)
    planned = planned_copy(model, options)
    network = described(request.model, settled(model, planned, options))
    sizes = dict((*request.shapes, *(planned.shapes if isinstance(planned, PlannedModel) else ())))
    missing = {n: PEERS[n].install for n in request.against if find_spec(PEERS[n].module) is None}
    here = [name for name in request.against if name not in missing]
    engines = [OURS, *(engine for name in here for engine in PEERS[name].engines)]
    threads = request.threads or usable_cores()
    watch = _watch()
    with tempfile.TemporaryDirectory(prefix="circlet-bench-") as folder:
        timed = partial(compare, network, threads, request.rounds, engines=engines, sizes=sizes)
        found = timed(cache=Path(folder), runs=request.runs, warmup=request.warmup)
    if OURS not in found.rounds:
        why = found.refused.get(OURS, "it gave no times")
        raise BackendError("the network does not run", where=str(request.model), why=why)
    rows = tuple(_rows(found, network.kind))
    return BenchReport(
        model=str(request.model),
        kind=network.kind,
        macs=network.macs,
        threads=threads,
        rounds=request.rounds,
        rows=rows,
        refused=dict(found.refused),
        missing=missing,
        noise=_noise(rows, watch),
    )


def _rows(found: Compared, kind: str) -> Iterable[EngineRow]:
    for engine in sorted(found.rounds, key=lambda name: (name != OURS, name)):
        about, difference = found.about[engine], found.differences.get(engine)
        settings = about.get("settings")
        part = None if difference is None else difference.part
        note = "" if difference is None else difference.note
        settings = settings if isinstance(settings, dict) else {}
        if not note and part is not None and part > TOLERANCES[kind]:
            note = "its outputs differ by more than rounding explains"
        if IN_NUMPY in settings:
            note = f"{settings[IN_NUMPY]} ran in numpy; `circlet place` says which and why"
        yield EngineRow(
            engine=engine,
            us=interval(found.rounds[engine]),
            ratio=None if engine == OURS else ratio_of(found.rounds, engine),
            convenient_us=found.convenient_us.get(engine, 0.0),
            open_ms=float(str(about["open_ms"])),
            difference=part,
            note=note,
            version=str(about.get("version", "")),
            settings=settings,
        )


def _watch() -> Watch | None:
    """Looks at what other processes do; None where the system does not tell."""
    try:
        return Watch()
    except OSError:
        return None


def _noise(rows: Iterable[EngineRow], watch: Watch | None) -> str:
    """Why the figures cannot be trusted: others used the CPUs, or rounds differ too much."""
    seen = reason(watch.facts()) if watch else ""
    if seen:
        return seen
    for row in rows:
        shown = row.us if row.ratio is None else row.ratio
        if shown.high > WIDEST * shown.low:
            what = "times" if row.ratio is None else "ratios"
            wide = 100 * (shown.high / max(shown.low, 1e-9) - 1)
            return f"the {what} of {row.engine} are known to {wide:.0f} % only"
    return ""
