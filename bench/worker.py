"""One engine on one network in a process of its own, driven over a pipe.

    python -m bench.worker ENGINE MODEL THREADS

Reads commands from standard input: a number of runs to time. Answers each with one JSON line: the
time of every run in microseconds. The first line it writes describes the engine and its outputs.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable

import numpy as np

from circlet.formats.arrays import Wanted, random_array

Call = Callable[[], None]


def litert(model: str, threads: int) -> tuple[Call, Callable[[], list[np.ndarray]]]:
    """LiteRT with its default delegate (XNNPACK)."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        shape = tuple(int(size) for size in detail["shape"])
        wanted = Wanted(detail["name"], np.dtype(detail["dtype"]).name, shape)
        interpreter.set_tensor(detail["index"], random_array(wanted))
    details = interpreter.get_output_details()
    return interpreter.invoke, lambda: [interpreter.get_tensor(d["index"]) for d in details]


def circlet(model: str, threads: int) -> tuple[Call, Callable[[], list[np.ndarray]]]:
    """Circlet's bound call."""
    from circlet import Session

    session = Session(model, threads=threads, backends=("cpu",))
    wanted = [Wanted(v.name, v.dtype, v.shape) for v in session.inputs]
    call = session.bind([random_array(spec) for spec in wanted])
    return call.run, lambda: list(call.outputs)


ENGINES = {"litert": litert, "circlet": circlet}


def main() -> None:
    """Serve commands until standard input ends."""
    engine, model, threads = sys.argv[1:]
    call, outputs = ENGINES[engine](model, int(threads))
    call()
    results = outputs()
    digests = [hashlib.sha256(array.tobytes()).hexdigest() for array in results]
    print(json.dumps({"engine": engine, "outputs": digests}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_time(call, int(line))), flush=True)


def _time(call: Call, runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times


if __name__ == "__main__":
    main()
