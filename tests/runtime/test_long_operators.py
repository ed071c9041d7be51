"""Timeouts and signals are heard inside of single operators."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.errors import DeadlineError
from circlet.limits import Limits
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.guard import Guard
from tests import child
from tests.runtime.long_operators import CASES
from tests.tiers import quick_of

# Processor time, which other work on the machine does not lengthen.
TIMEOUT_S, LATE_S, THREADS = 0.2, 1.0, 2
ROOT = Path(__file__).resolve().parents[2]
UNLIMITED = Limits(run_work=10**18, memory_bytes=1 << 40)
QUICK = ("convolution", "lstm", "loop")
INTERRUPTED = """
import sys
import numpy as np
from circlet import Session
from tests.runtime.test_long_operators import opened

session, arrays = opened(*sys.argv[1:3])
try:
    print("running", flush=True)
    session.run(arrays)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
every_case = pytest.mark.parametrize("case", quick_of(CASES, QUICK))


@lru_cache(maxsize=1)
def opened(case: str, backend: str) -> tuple[Session, list[np.ndarray]]:
    session = Session(
        CASES[case](), backends=(backend, "reference"), threads=THREADS, limits=UNLIMITED
    )
    arrays = [np.zeros(value.shape, value.dtype) for value in session.inputs]
    if case == "top-k":  # equal numbers take no sorting
        arrays[0].view(np.uint32)[:] = np.arange(arrays[0].size, dtype=np.uint32) * 61
    return session, arrays


@every_case
def test_a_timeout_is_kept_within_an_operator(case: str) -> None:
    session, arrays = opened(case, "cpu")
    start = time.process_time()
    with pytest.raises(DeadlineError):
        session.run(arrays, timeout=TIMEOUT_S)
    assert time.process_time() - start < THREADS * (TIMEOUT_S + LATE_S)


@every_case
def test_a_record_stops_within_an_operator(case: str) -> None:
    graph = CASES[case]().main
    arrays = [np.zeros(tensor.static_shape, tensor.dtype.numpy) for tensor in graph.inputs]
    start = time.process_time()

    def check() -> None:
        if time.process_time() - start > TIMEOUT_S:
            raise DeadlineError.passed()

    with pytest.raises(DeadlineError):
        evaluate_graph(graph, arrays, Guard(check, UNLIMITED, budget=UNLIMITED.memory_budget(0)))
    assert time.process_time() - start < TIMEOUT_S + LATE_S


def processor_s(pid: int) -> float:
    """The processor time that another process has taken."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, behind_name[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("case", "backend"),
    [
        ("convolution", "cpu"),
        ("lstm", "reference"),
        pytest.param("convolution", "reference", marks=pytest.mark.slow),
        pytest.param("lstm", "cpu", marks=pytest.mark.slow),
    ],
)
def test_a_signal_is_heard_within_an_operator(case: str, backend: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, case, backend]
    environment = child.environment()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(0.5)
        start = processor_s(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert processor_s(process.pid) - start < THREADS * LATE_S


def test_a_session_works_after_it_was_stopped_within_an_operator() -> None:
    session, arrays = opened("loop", "cpu")
    for _ in range(2):
        with pytest.raises(DeadlineError):
            session.run(arrays, timeout=0.2)
