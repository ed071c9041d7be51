"""This checkout's Circlet against another's, interleaved: what a change costs or gains.

For every network: latency of the bound call at each number of threads, process starts from a warm
cache, peak memory, and resizing. Ratios are the other's over ours: above 1 this one is faster, or
smaller. `x2` stands for 2 threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from bench.arguments import add_networks, add_rounds, add_threads, parser
from bench.fresh import start
from bench.measure import CORPUS, chosen, private_cache
from circlet.comparison.compare import ROUND_US, chosen_cpus
from circlet.comparison.networks import classified, random_inputs
from circlet.comparison.ratios import Interval, interval
from circlet.comparison.workers import CHECKOUT, EngineError, Worker, has_worker

Rounds = dict[str, list[float]]
_RESIZE = """
import json, sys, time
from circlet import Session
from circlet.errors import CircletError
session, taken = Session(sys.argv[1]), []
shape = session.inputs[0].shape
for step in range(1, 16) if len(shape) == 4 else ():
    wanted = (shape[0], shape[1] + 8 * step, shape[2] + 8 * step, shape[3])
    begin = time.perf_counter()
    try:
        session.resized({session.inputs[0].name: wanted})
    except CircletError:
        break
    taken.append((time.perf_counter() - begin) * 1e3)
print(json.dumps(sorted(taken)[len(taken) // 2] if taken else None))
"""


def main(arguments: Sequence[str]) -> None:
    """Compare, print a line per network, and the geometric means."""
    known = parser("against", __doc__)
    known.add_argument("other", type=Path, help="the other checkout's folder")
    add_networks(known, "the public corpora")
    add_threads(known)
    add_rounds(known, 7)
    known.add_argument("--starts", type=int, default=5, help="fresh processes of each; 0 for none")
    known.add_argument("--resizes", type=int, default=0, help="processes that resize; 0 for none")
    options = known.parse_args(arguments)
    if not has_worker(options.other):
        known.error(f"{options.other} is no checkout of Circlet: it has no worker of engines")
    checkouts = {"other": options.other.resolve(), "ours": CHECKOUT}
    threads = [int(count) for count in options.threads.split(",")]
    ratios: dict[str, list[float]] = {}
    with private_cache():
        paths = chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models)
        for path in map(Path.resolve, paths):  # workers and starts have folders of their own
            try:
                found = {f"x{n}": latency(path, n, options.rounds, checkouts) for n in threads}
                found |= starts(path, options.starts, checkouts)
                found |= resizes(path, options.resizes, checkouts)
            except (EngineError, ValueError) as error:
                print(f"{path.stem:44} {error}", flush=True)
                continue
            shown = {name: ratio(both) for name, both in found.items()}
            for name, value in shown.items():
                ratios.setdefault(name, []).append(value.middle)
            print(f"{path.stem:44} {'  '.join(map(_column, shown, shown.values()))}", flush=True)
    for name, values in ratios.items():
        print(f"{name}: geometric mean {geometric_mean(values):.3f} of {len(values)}")


def ratio(both: Mapping[str, Sequence[float]]) -> Interval:
    """The other's over ours, round by round."""
    return interval([a / b for a, b in zip(both["other"], both["ours"], strict=True)])


def _column(name: str, value: Interval) -> str:
    return f"{name} {value.middle:.3f} [{value.low:.3f} {value.high:.3f}]"


def latency(path: Path, threads: int, rounds: int, checkouts: Mapping[str, Path]) -> Rounds:
    """Median microseconds of each round's bound calls, by checkout.

    Raises:
        EngineError: One of the two cannot run the network.
    """
    found: Rounds = {name: [] for name in checkouts}
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        np.savez(folder / "inputs.npz", **random_inputs(path))  # type: ignore[arg-type]
        extra = ["--class", classified(path), "--inputs", str(folder / "inputs.npz")]
        extra += ["--cpus", ",".join(map(str, chosen_cpus(threads)))]
        workers = {}
        for name, checkout in checkouts.items():
            own = [*extra, "--cache", str(folder / name)]
            worker = Worker("circlet", path, threads, *own, checkout=checkout)
            workers[name] = open_.enter_context(worker)
        for worker in workers.values():
            worker.run(2)
        runs = {
            name: max(1, int(ROUND_US / max(median(worker.run(3)), 0.2)))
            for name, worker in workers.items()
        }
        for number in range(rounds):
            for name in _in_turn(checkouts, number):
                found[name].append(median(workers[name].run(runs[name])))
    return found


def starts(path: Path, rounds: int, checkouts: Mapping[str, Path]) -> dict[str, Rounds]:
    """Milliseconds to the first result and MiB at the peak, of fresh processes with warm caches."""
    if not rounds:
        return {}
    ms: Rounds = {name: [] for name in checkouts}
    peaks: Rounds = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory(prefix="bench-starts-") as folder:
        for number in range(-1, rounds):
            for name in _in_turn(checkouts, number):
                home = Path(folder, name)
                home.mkdir(mode=0o700, exist_ok=True)
                run = start("circlet", path, home, checkouts[name] / "circlet")
                if number >= 0:
                    ms[name].append(run.ms)
                    peaks[name].append(run.peak_mib)
    return {"start": ms, "peak memory": peaks}


def resizes(path: Path, rounds: int, checkouts: Mapping[str, Path]) -> dict[str, Rounds]:
    """The median milliseconds of a process's resizes; nothing where the network has one size."""
    found: Rounds = {name: [] for name in checkouts}
    for number in range(rounds):
        for name in _in_turn(checkouts, number):
            command = [sys.executable, "-c", _RESIZE, str(path)]
            environment = {**os.environ, "PYTHONPATH": str(checkouts[name])}
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise EngineError(done.stderr.strip().splitlines()[-1])
            middle = json.loads(done.stdout)
            if middle is None:
                return {}
            found[name].append(middle)
    return {"resize": found} if rounds else {}


def _in_turn(checkouts: Mapping[str, Path], number: int) -> list[str]:
    """Another checkout comes first in every round."""
    return list(checkouts)[:: -1 if number % 2 else 1]
