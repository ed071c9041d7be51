"""Latency of Circlet beside LiteRT, network by network, interleaved round by round.

    python -m bench.latency [--models PATTERN] [--threads 1,2] [--rounds 15] [--json FILE]

Each engine runs in its own process on the same random input; rounds of about 50 ms alternate. The
ratio is LiteRT's median over Circlet's within a round; shown are its median and the quartiles over
rounds. Above 1 Circlet is faster.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any

CORPUS = Path(__file__).parents[2] / "shared" / "corpora" / "models"
ROUND_US = 50_000


@dataclass(frozen=True)
class Row:
    """One network at one thread count, times in microseconds."""

    model: str
    threads: int
    litert_us: float
    circlet_us: float
    ratio: float
    low: float
    high: float


class Worker:
    """An engine's process."""

    def __init__(self, engine: str, model: Path, threads: int) -> None:
        command = [sys.executable, "-m", "bench.worker", engine, str(model), str(threads)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.about = self._answer()

    def run(self, runs: int) -> list[float]:
        """Times of so many runs."""
        assert self._process.stdin
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        times: list[float] = self._answer()
        return times

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the engine cannot run this network")
        return json.loads(line)


def compare(model: Path, threads: int, rounds: int) -> Row:
    """Interleave both engines on one network."""
    workers = {}
    try:
        for engine in ("litert", "circlet"):
            workers[engine] = Worker(engine, model, threads)
        counts = {}
        for engine, worker in workers.items():
            worker.run(3)
            counts[engine] = max(1, int(ROUND_US / max(median(worker.run(5)), 1)))
        times: dict[str, list[float]] = {engine: [] for engine in workers}
        for _ in range(rounds):
            for engine, worker in workers.items():
                times[engine].append(median(worker.run(counts[engine])))
    finally:
        for worker in workers.values():
            worker.close()
    ratios = [a / b for a, b in zip(times["litert"], times["circlet"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    medians = (median(times["litert"]), median(times["circlet"]))
    return Row(model.stem, threads, *medians, median(ratios), low, high)


def main() -> None:
    """Print a line per network and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for model in sorted(CORPUS.glob("*.tflite")):
        if not any(fnmatch.fnmatch(model.stem, part) for part in options.models.split(",")):
            continue
        for threads in map(int, options.threads.split(",")):
            try:
                row = compare(model, threads, options.rounds)
            except RuntimeError as error:
                print(f"{model.stem:48} {error}")
                break
            rows.append(row)
            print(
                f"{row.model:48} {row.threads} LiteRT {row.litert_us:9.1f} us  "
                f"Circlet {row.circlet_us:9.1f} us  ratio {row.ratio:5.2f} "
                f"({row.low:.2f} to {row.high:.2f})",
                flush=True,
            )
    print(f"geometric mean of {len(rows)}: {geometric_mean(row.ratio for row in rows):.2f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
