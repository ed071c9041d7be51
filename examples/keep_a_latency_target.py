"""Keeps a latency target while other processes take the cores, and goes back when they end.

The first point, numpy, stands for one that is preferred though slower, such as one thread or a
device that saves power. The load is real: processes that only count.

python examples/keep_a_latency_target.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

import numpy as np

from circlet import AdaptiveSession, Session
from circlet.runtime.front import Pace
from circlet.sample import Sample

POINTS = [{"backends": ["reference"]}, {"backends": ["cpu"]}]
COUNTING = "while True: pass"
CORES = len(os.sched_getaffinity(0))
FEWEST = 30


def main() -> None:
    """Ask for answers before, during and after a load."""
    sample = Sample("int8")
    picture, pace = sample.image(), Pace(calm_s=0.5, longest_s=4.0)
    Session(sample.model_path, backends=["cpu"])  # compiled once, then found in the cache
    idle = AdaptiveSession(sample.model_path, POINTS[:1], target_ms=1e6)
    target_ms = 1.5 * median(latencies(idle, picture, lambda: False, 1.0))
    session = AdaptiveSession(sample.model_path, POINTS, target_ms=target_ms, pace=pace)
    asked = 0
    for phase, processes, point in (("idle", 0, 0), ("load", 3 * CORES, 1), ("idle", 0, 0)):
        with ExitStack() as load:
            for _ in range(processes):
                process = subprocess.Popen([sys.executable, "-c", COUNTING])
                load.callback(process.wait)
                load.callback(process.kill)
            times = latencies(session, picture, partial(is_on, session, point))
        asked += len(times)
        print(f"{phase}: {len(times)} requests, {median(times):.2f} ms, point {session.point}")
    for move in session.moves:
        print(f"point {move.source} -> {move.target}: {move.why}, {move.latency_ms:.2f} ms")
    (scores,) = session.run([picture]).values()
    print(f"{asked} of {asked} requests were answered; the picture shows {scores.argmax()}")


def is_on(session: AdaptiveSession, point: int) -> bool:
    """Whether new requests run on a point."""
    return session.point == point


def latencies(
    session: AdaptiveSession,
    picture: np.ndarray,
    is_enough: Callable[[], bool],
    longest_s: float = 15.0,
) -> list[float]:
    """Milliseconds of requests, one after the other; an error would end the script."""
    times: list[float] = []
    end = time.monotonic() + longest_s
    while len(times) < FEWEST or (not is_enough() and time.monotonic() < end):
        start = time.perf_counter()
        session.run([picture])
        times.append((time.perf_counter() - start) * 1e3)
    return times


if __name__ == "__main__":
    main()
