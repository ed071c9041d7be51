"""Circlet and its peers on networks, interleaved round by round in isolated processes.

For every network: latency of the bound call at each number of threads, outputs compared, the
convenience call, process starts, compile time, memory and artifact size. Writes one JSON file to
bench/results/; of a run over all of the public corpora it makes docs/performance.md and the page of
this class of machines, as `python -m bench report FILE` does of any result.
"""

from __future__ import annotations

import fnmatch
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench import load, machine, report, scaling
from bench.arguments import (
    COMMANDS,
    add_loaded,
    add_networks,
    add_rounds,
    add_target,
    add_threads,
    parser,
)
from bench.classes import MachineClass
from bench.explain_rows import explained
from bench.fresh import Starts, starts
from bench.held import held_to
from bench.result import FOLDER, Latency, Result, Run, to_json
from bench.steps import profile
from circlet.backends.cpu.profiling.peaks import measured_peaks
from circlet.comparison.compare import Compared, chosen_cpus, compare
from circlet.comparison.networks import Network, described, find_networks
from circlet.comparison.ratios import best_peer, ratio_of
from circlet.config import Config
from circlet.errors import CircletError
from circlet.options import Options
from circlet.runtime.opening import open_source
from circlet.target.targets import Target, parse_target

CORPUS = Path(__file__).parents[2] / "shared" / "corpora" / "models"
_STARTED = ["litert", "litert_cached", "openvino", "circlet"]


def main(arguments: Sequence[str]) -> None:
    """Measure, print a line per network and thread count, write the result and the page."""
    further = "\n".join(f"  {name:<14}{text}" for name, text in COMMANDS.items())
    known = parser("", __doc__, f"further commands, each with --help:\n{further}")
    add_networks(known, "the public corpora")
    add_threads(known)
    add_rounds(known, 11)
    known.add_argument("--starts", type=int, default=9, help="fresh processes; 0 for none")
    known.add_argument("--scaling", action="store_true", help="measure scaling curves as well")
    known.add_argument("--json", type=Path, help="file for the result, and no page is made")
    add_loaded(known)
    add_target(known, "; peers are held to its instructions")
    options = known.parse_args(arguments)
    paths = options.paths or [CORPUS]
    networks = chosen(paths, options.models)
    if not networks:
        known.error(f"no network is called {options.models} in {_places(options.paths)}")
    threads = [int(count) for count in options.threads.split(",")]
    begin, target = time.perf_counter(), parse_target(options.target)
    is_page_made = not (options.json or options.paths or options.models != "*")
    with private_cache(), held_to(target):
        if options.scaling:
            scaling.main(["--loaded"] if options.loaded else [])
        facts, watch = machine.facts(target), load.watch(options.loaded or not is_page_made)
        run = Run(
            facts,
            {"rounds": options.rounds, "starts": options.starts, "cpus": chosen_cpus(max(threads))},
            measured_peaks(target).as_json(),
            [],
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        FOLDER.mkdir(exist_ok=True)
        file = options.json or FOLDER / f"run-{run.date.replace(':', '')}.json"
        how = (threads, options.rounds, options.starts, target, run.machine_class)
        for result, engines in _measured(networks, *how):
            run.results.append(result)
            run.engines.update({**engines, **run.engines})
            facts.update(watch.facts())
            file.write_text(to_json(run), encoding="utf-8")
    if not run.results:
        sys.exit(1)
    print(f"{file} after {time.perf_counter() - begin:.0f} s")
    if is_page_made:
        report.write(run, options.loaded)


def _places(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths)) or f"the public corpora, {CORPUS}"


@contextmanager
def private_cache() -> Iterator[None]:
    """Have this process and its workers start with nothing compiled, and leave nothing behind."""
    usual = os.environ.get("CIRCLET_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="bench-circlet-") as folder:
        os.environ["CIRCLET_CACHE_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["CIRCLET_CACHE_DIR"]
            if usual is not None:
                os.environ["CIRCLET_CACHE_DIR"] = usual


def chosen(paths: Iterable[Path], patterns: str) -> list[Path]:
    """The network files among paths whose names fit one of the patterns."""
    return [
        path
        for path in find_networks(paths)
        if any(fnmatch.fnmatch(path.stem, pattern) for pattern in patterns.split(","))
    ]


def _measured(
    paths: Sequence[Path],
    threads: Sequence[int],
    rounds: int,
    fresh: int,
    target: Target,
    of: MachineClass,
) -> Iterator[tuple[Result, dict[str, str]]]:
    for number, path in enumerate(paths):
        try:
            network = described(path)
        except (CircletError, OSError) as error:
            print(f"{path.stem}: {error}".splitlines()[0])
            continue
        result, engines = measure(network, threads, rounds, fresh, target, of)
        for line in report.lines(result, of):
            print(f"{number + 1}/{len(paths)} {line}", flush=True)
        yield result, engines


def measure(
    network: Network,
    threads: Sequence[int],
    rounds: int,
    fresh: int,
    target: Target,
    of: MachineClass,
) -> tuple[Result, dict[str, str]]:
    """Everything about one network, and the settings that the engines had."""
    compiled = _compile(network, target)
    latency: dict[int, Latency] = {}
    found: dict[int, Compared] = {}
    for count in threads:
        with tempfile.TemporaryDirectory(prefix="bench-cache-") as cache:
            found[count] = compare(network, count, rounds, cache=Path(cache), target=str(target))
        latency[count] = latency_of(found[count])
    first = found[threads[0]]
    refused = {name: why for done in reversed(found.values()) for name, why in done.refused.items()}
    runs = [name for name in _STARTED if name in first.about]
    begun = starts(runs, network.path, fresh) if fresh and runs else {}
    result = Result(
        name=network.name,
        kind=network.kind,
        macs=network.macs,
        bytes=network.bytes,
        latency={count: row for count, row in latency.items() if row.us},
        refused=refused,
        differences={name: asdict(one) for name, one in first.differences.items()},
        open_ms={name: float(str(about["open_ms"])) for name, about in first.about.items()},
        starts={name: _start_facts(one, begun.get("litert")) for name, one in begun.items()},
        compile_s=compiled[0] if compiled else None,
        artifact_bytes=compiled[1] if compiled else None,
        slow=_reasons(network, latency, target, of),
    )
    return result, _settings(network, found)


def _settings(network: Network, found: Mapping[int, Compared]) -> dict[str, str]:
    return {
        f"{engine}, {network.kind}, {threads} threads": str(about["settings"])
        for threads, done in found.items()
        for engine, about in done.about.items()
    }


def latency_of(found: Compared) -> Latency:
    """Medians over rounds, the best peer and its ratio."""
    us = {engine: median(times) for engine, times in found.rounds.items()}
    best = best_peer(found.rounds)
    ratio = ratio_of(found.rounds, best) if best and "circlet" in us else None
    return Latency(us, found.convenient_us, best if ratio else "", ratio)


def _start_facts(starts: Starts, litert: Starts | None) -> dict[str, float]:
    facts = {
        "cold_ms": starts.cold_ms,
        "warm_ms": starts.warm.ms,
        "peak_mib": starts.warm.peak_mib,
        "after_mib": starts.warm.after_mib,
    }
    if litert is None or len(litert.rounds) != len(starts.rounds):
        return facts
    times = {"litert": litert.warm_ms, "this": starts.warm_ms}
    ratio = ratio_of(times, "litert", "this")
    return {**facts, "ratio": ratio.middle, "ratio_low": ratio.low, "ratio_high": ratio.high}


def _compile(network: Network, target: Target) -> tuple[float, int] | None:
    """Seconds to compile, and the size of what the cache then holds more; None if it was there."""
    before = _artifacts()
    try:
        opened = open_source(network.path, Options(target=str(target)))
    except CircletError:
        return None
    grown = sum(size for path, size in _artifacts().items() if path not in before)
    return (opened.seconds["compile"], grown) if grown else None


def _artifacts() -> dict[Path, int]:
    folder = Path(Config.from_environment().cache_folder())
    return {path: path.stat().st_size for path in folder.glob("*.circlet")}


def _reasons(
    network: Network, latency: Mapping[int, Latency], target: Target, of: MachineClass
) -> dict[int, str]:
    """For each number of threads at which the network misses its bar, what the figures say."""
    first = min(latency)
    reasons = {}
    for threads, row in latency.items():
        if row.verdict(of.bars(threads)) != "missed":
            continue
        gains = [
            f"{name} {latency[first].us[name] / row.us[name]:.2f}"
            for name in ("circlet", row.best)
            if threads > first and name in latency[first].us
        ]
        gain = f"; speed-up over {first} thread: {', '.join(gains)}" if gains else ""
        reasons[threads] = _slow(network, threads, target) + gain
    return reasons


def _slow(network: Network, threads: int, target: Target) -> str:
    """The kernel calls in which most of the time goes, and how far from the roofline they are."""
    try:
        found = profile(network.path, threads, 0.3, str(target))
    except (CircletError, RuntimeError) as error:
        return str(error).splitlines()[0]
    rows = explained(found, measured_peaks(target))
    costs: dict[str, list[float]] = {}
    for row in rows:
        kernel = row.kernel.split("(")[0]
        entry = costs.setdefault(f"{row.kind} in {kernel}", [0.0, 0.0])
        entry[0] += row.us
        entry[1] += row.us * row.roof
    total = sum(us for us, _ in costs.values()) or 1.0
    top = sorted(costs.items(), key=lambda item: -item[1][0])[:2]
    return "; ".join(
        f"{100 * us / total:.0f} % {name}, at {100 * roof / us:.0f} % of the roofline"
        for name, (us, roof) in top
    )
