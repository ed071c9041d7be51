"""Latency while another process keeps one of the CPUs busy.

For every network and engine: the bound call on one thread and on `--threads`, with the CPUs quiet
and with a process that never rests bound to the last of them. Engines, counts of threads and both
states take turns round by round, each engine in processes of its own that may use as many CPUs as
threads. A round's figure is the mean of its calls, as the disturbed ones come in two kinds; shown
are medians over rounds, and the gain: the time on one thread over that on all.

With two CPUs the busy process leaves one and a half, so a gain of 1.5 is all that there is to have;
below 1.0 threads would do harm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean, median

import numpy as np

from bench.arguments import add_networks, add_rounds, parser
from bench.measure import CORPUS, chosen, private_cache
from circlet.comparison.compare import chosen_cpus
from circlet.comparison.networks import classified, random_inputs
from circlet.comparison.workers import EngineError, Worker
from circlet.errors import CircletError

ROUND_US = 100_000
_BUSY = "import os\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\nwhile True: pass\n"
_STATES = (False, True)


class BusyProcess:
    """A process that keeps one CPU busy, or is stopped.

    Attributes:
        pid: Its number.
    """

    def __init__(self, cpu: int) -> None:
        command = [sys.executable, "-c", _BUSY % cpu]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout
        self._process.stdout.readline()
        self.pid = self._process.pid
        self.set_busy(False)

    def set_busy(self, busy: bool) -> None:
        """Have it run, or stop."""
        self._process.send_signal(signal.SIGCONT if busy else signal.SIGSTOP)

    def close(self) -> None:
        """End it."""
        assert self._process.stdout
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True)
class Setting:
    """How an engine was measured: on so many threads, with a CPU disturbed or not."""

    threads: int
    is_disturbed: bool


@dataclass(frozen=True)
class Row:
    """Microseconds of an engine on a network, by setting."""

    engine: str
    us: Mapping[Setting, float]

    def gain(self, threads: int, is_disturbed: bool) -> float:
        """The time on one thread over that on so many, both in one state of the CPUs."""
        return self.us[Setting(1, is_disturbed)] / self.us[Setting(threads, is_disturbed)]

    def text(self, network: str, threads: int) -> str:
        """One line of the table."""
        shown = f"{network:44} {self.engine:12}"
        for state in _STATES:
            alone, together = (self.us[Setting(count, state)] for count in (1, threads))
            shown += f"  {alone:10.1f} {together:10.1f} us {self.gain(threads, state):5.2f}"
        return shown


def main(arguments: Sequence[str]) -> None:
    """Measure, print a line per network and engine, and the geometric means of the gains."""
    known = parser("disturbed", __doc__)
    add_networks(known, "the public corpora")
    known.add_argument("--threads", type=int, default=2, help="beside one")
    known.add_argument("--engines", default="litert,circlet", help="names, separated by commas")
    add_rounds(known, 7)
    options = known.parse_args(arguments)
    usable = len(os.sched_getaffinity(0))
    if not 1 < options.threads <= usable:
        known.error(f"threads are 2 to {usable}: this process may use so many CPUs")
    found: dict[str, list[Row]] = {}
    head = "1 thread  threads      gain"
    print(f"{'':57}  {'quiet: ' + head:>30}   {'disturbed: ' + head:>30}", flush=True)
    with private_cache():
        for path in chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models):
            for row in measured(path, options.engines.split(","), options.threads, options.rounds):
                print(row.text(path.stem, options.threads), flush=True)
                found.setdefault(row.engine, []).append(row)
    for engine, rows in found.items():
        quiet, disturbed = (
            geometric_mean(row.gain(options.threads, state) for row in rows) for state in _STATES
        )
        lowest = min(row.gain(options.threads, True) for row in rows)
        print(f"{engine}: gain {quiet:.2f} quiet, {disturbed:.2f} disturbed, lowest {lowest:.2f}")


def measured(path: Path, engines: Sequence[str], threads: int, rounds: int) -> Iterator[Row]:
    """A row for each engine that runs the network; why others do not is printed."""
    cpus = chosen_cpus(threads)
    with ExitStack() as open_:
        workers = {}
        for engine in engines:
            try:
                workers[engine] = open_.enter_context(_workers(engine, path, threads, cpus))
            except (CircletError, EngineError, ValueError) as error:
                print(f"{path.stem:44} {engine:12}  {error}", flush=True)
        busy = BusyProcess(cpus[-1])
        open_.callback(busy.close)
        times = _times(workers, busy, rounds)
    for engine, taken in times.items():
        yield Row(engine, {setting: median(us) for setting, us in taken.items()})


@contextmanager
def _workers(
    engine: str, path: Path, threads: int, cpus: Sequence[int]
) -> Iterator[dict[int, Worker]]:
    """A process of the engine on one thread, and one on all, both on the same CPUs."""
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        np.savez(folder / "inputs.npz", **random_inputs(path))  # type: ignore[arg-type]
        extra = ["--class", classified(path), "--inputs", str(folder / "inputs.npz")]
        extra += ["--cpus", ",".join(map(str, cpus))]
        yield {
            count: open_.enter_context(Worker(engine, path, count, *extra))
            for count in (1, threads)
        }


def _times(
    workers: Mapping[str, Mapping[int, Worker]], busy: BusyProcess, rounds: int
) -> dict[str, dict[Setting, list[float]]]:
    """Mean microseconds of each round."""
    times: dict[str, dict[Setting, list[float]]] = {engine: {} for engine in workers}
    runs = {
        (engine, count): max(3, int(ROUND_US / max(median(worker.run(5)), 0.2)))
        for engine, row in workers.items()
        for count, worker in row.items()
    }
    for number in range(rounds):
        for is_disturbed in _STATES[:: -1 if number % 2 else 1]:
            busy.set_busy(is_disturbed)
            for engine, row in workers.items():
                for count, worker in row.items():
                    us = fmean(worker.run(runs[engine, count]))
                    times[engine].setdefault(Setting(count, is_disturbed), []).append(us)
    busy.set_busy(False)
    return times
