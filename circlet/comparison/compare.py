"""All engines on one network at one number of threads, interleaved round by round."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from circlet.comparison.engines import ENGINES
from circlet.comparison.networks import Network, random_inputs
from circlet.comparison.outputs import Difference, difference
from circlet.comparison.workers import EngineError, Worker

ROUND_US = 25_000
PAUSE_S = 0.04  # between two engines, as threads of the one before may spin on for 25 ms
_LITERT = ("litert", "litert_cached")


@dataclass
class Compared:
    """What was found.

    Attributes:
        rounds: The median time of each round in microseconds, by engine.
        convenient_us: Median time of the convenience call, by engine.
        about: What each engine says of itself: version, settings, time to open.
        refused: Why engines did not run the network.
        outputs: Of the first run, by engine and name.
        differences: Of the peers' outputs from Circlet's.
    """

    rounds: dict[str, list[float]] = field(default_factory=dict)
    convenient_us: dict[str, float] = field(default_factory=dict)
    about: dict[str, Mapping[str, object]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    differences: dict[str, Difference] = field(default_factory=dict)


def chosen_cpus(threads: int) -> list[int]:
    """The CPUs to pin to: the last ones that this process may use, as the first serve devices."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-threads:]


def compare(
    network: Network,
    threads: int,
    rounds: int,
    *,
    engines: Sequence[str] = tuple(ENGINES),
    cache: Path | None = None,
    sizes: dict[str, tuple[int, ...]] | None = None,
    runs: int | None = None,
    warmup: int = 2,
    target: str = "native",
    inputs: Mapping[str, np.ndarray] | None = None,
    continued: tuple[str, str] = ("", ""),
    files: Mapping[str, Path] | None = None,
) -> Compared:
    """Run every engine that can; each worker is gone when this returns.

    Args:
        rounds: In each of them every engine has its turn.
        engines: Names of `ENGINES`; LiteRT's two interfaces stand for each other.
        cache: A folder for what engines keep between processes.
        sizes: Sizes of inputs, by name, that are not to be those of the file.
        runs: Runs of each engine in all rounds; those of 25 ms a round where it is None.
        warmup: Runs that do not count.
        target: What Circlet compiles for.
        inputs: What to run on; random numbers where it is None.
        continued: Which outputs are written over inputs, as `Task.continued` has it.
        files: Other files of the same network for engines to run besides the network's own, each
            under the name that is given here: the engine's, a space, and what tells it apart.
    """
    found = Compared()
    try:
        inputs = random_inputs(network.path, sizes) if inputs is None else inputs
    except Exception as error:  # the file is the user's; what is wrong with it is the result
        found.refused = dict.fromkeys(engines, f"{type(error).__name__}: {error}".splitlines()[0])
        return found
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        given = folder / "inputs.npz"
        np.savez(given, **inputs)  # type: ignore[arg-type]
        extra = ["--class", network.kind, "--inputs", str(given)]
        extra += ["--cpus", ",".join(map(str, chosen_cpus(threads)))]
        extra += ["--target", target, "--continued", *continued]
        extra += ["--cache", str(cache)] if cache else []
        workers: dict[str, Worker] = {}
        try:
            models = {**dict.fromkeys(engines, network.path), **(files or {})}
            _open(workers, found, models, (threads, extra, folder))
            found.about = {engine: worker.about for engine, worker in workers.items()}
            _measure(workers, rounds, found, runs, warmup)
        finally:
            for worker in workers.values():
                worker.close()
        found.outputs = {engine: _loaded(folder / f"{engine}.npz") for engine in workers}
        found.differences = _differences(found.outputs)
    return found


def _open(
    workers: dict[str, Worker],
    found: Compared,
    models: Mapping[str, Path],
    wanted: tuple[int, Sequence[str], Path],
) -> None:
    """Start a worker for each engine that opens its file of the network."""
    threads, extra, folder = wanted
    for engine, model in models.items():
        results = ["--outputs", str(folder / f"{engine}.npz")]
        try:
            workers[engine] = Worker(engine.split()[0], model, threads, *extra, *results)
        except EngineError as error:
            found.refused[engine] = str(error)


def _measure(
    workers: dict[str, Worker], rounds: int, found: Compared, runs: int | None, warmup: int
) -> None:
    """Time the workers in turn; one that fails leaves, with its reason."""
    counts: dict[str, int] = {}

    def timed(engine: str, runs: int, *, convenient: bool = False) -> float:
        if len(workers) > 1:
            time.sleep(PAUSE_S)
        try:
            return median(workers[engine].run(runs, convenient=convenient))
        except EngineError as error:
            found.refused[engine] = str(error)
            found.rounds.pop(engine, None)
            workers.pop(engine).close()
            return 0.0

    for engine in list(workers):
        timed(engine, max(1, warmup))
        if engine in workers:
            us = timed(engine, 3)
            counts[engine] = -(-runs // rounds) if runs else max(1, int(ROUND_US / max(us, 0.2)))
    _drop_slower_litert(workers, counts, timed)
    for number in range(rounds):
        order = list(workers)
        for engine in _turned(order, number):
            us = timed(engine, counts[engine])
            if engine in workers:
                found.rounds.setdefault(engine, []).append(us)
    for engine in list(workers):
        found.convenient_us[engine] = timed(engine, max(3, counts[engine] // 2), convenient=True)


def _turned(order: Sequence[str], number: int) -> list[str]:
    """Another engine comes first in every round."""
    first = number % max(1, len(order))
    return [*order[first:], *order[:first]]


def _drop_slower_litert(
    workers: dict[str, Worker], counts: dict[str, int], timed: Callable[[str, int], float]
) -> None:
    """LiteRT has two interfaces; the one that is faster on this network stands for it."""
    times: dict[str, float] = {}
    for engine in _LITERT * 3:
        if engine in workers:
            us = timed(engine, max(1, counts[engine] // 2))
            times[engine] = min(us, times.get(engine, us))
    if all(engine in workers for engine in _LITERT):
        workers.pop(max(_LITERT, key=lambda engine: times[engine])).close()


def _differences(outputs: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Difference]:
    if "circlet" not in outputs:
        return {}
    ours = outputs["circlet"]
    return {name: difference(ours, made) for name, made in outputs.items() if name != "circlet"}


def _loaded(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
