"""One engine on one network in a process of its own, driven over a pipe.

The first line that it writes describes the engine, or holds the reason why it cannot run the
network. Then it reads commands from standard input, one a line: a number of runs to time, or `c`
and a number for convenience calls. It answers each with the time of every run in microseconds, as
JSON. It ends when standard input ends, and with the process that started it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np

from circlet.comparison.engines import BESIDE, ENGINES, Engine, Task
from circlet.comparison.networks import classified, random_inputs

_PR_SET_PDEATHSIG = 1
_LINE_BYTES = 64
_ENGINES = {**ENGINES, **BESIDE}


def main() -> None:
    """Serve commands until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=_ENGINES)
    parser.add_argument("model", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--class", dest="kind", default="")
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--cpus", default="")
    parser.add_argument("--target", default="native")
    parser.add_argument("--continued", nargs=2, default=("", ""))
    options = parser.parse_args()
    _die_with_parent()
    if options.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    answers = _private_stdout()
    try:
        engine, about = _opened(options)
    except Exception as error:  # engines raise what they like; the reason is the result
        reason = f"{type(error).__name__}: {error}".replace(f"{options.model.parent}/", "")
        print(json.dumps({"error": reason}), file=answers, flush=True)
        return
    print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        word = line.split()
        call = engine.convenient if word[0] == "c" else engine.bound
        print(json.dumps(_time(call, int(word[-1]))), file=answers, flush=True)


def _opened(options: argparse.Namespace) -> tuple[Engine, dict[str, object]]:
    inputs = {name: _on_lines(array) for name, array in _inputs(options).items()}
    kind = options.kind or classified(options.model)
    first, second = options.continued
    task = Task(
        options.model,
        inputs,
        options.threads,
        kind,
        options.cache,
        options.target,
        (first, second),
    )
    start = time.perf_counter()
    engine = _ENGINES[options.engine](task)
    ready = time.perf_counter()
    engine.bound()
    first = time.perf_counter()
    if options.outputs:
        np.savez(options.outputs, **engine.outputs())  # type: ignore[arg-type]
    return engine, {
        "engine": options.engine,
        "version": engine.version,
        "settings": engine.settings,
        "open_ms": (ready - start) * 1e3,
        "first_ms": (first - ready) * 1e3,
    }


def _inputs(options: argparse.Namespace) -> dict[str, np.ndarray]:
    if not options.inputs:
        return random_inputs(options.model)
    with np.load(options.inputs) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _on_lines(array: np.ndarray) -> np.ndarray:
    """A copy that starts on a line of the cache, as the buffers of engines do; text as it is."""
    if array.dtype.hasobject:
        return array
    raw = np.empty(array.nbytes + _LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % _LINE_BYTES
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _private_stdout() -> TextIO:
    """The standard output, for answers alone: what engines print goes to standard error."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(ours, "w")


def _time(call: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times


if __name__ == "__main__":
    main()
