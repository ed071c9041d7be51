"""Times every kernel call of a network's plan and says what work each one does.

Times are the least of many runs, which what else the machine does disturbs least.
"""

from __future__ import annotations

from dataclasses import dataclass

from circlet.options import Options
from circlet.profiling.calls import NUMPY, planned_again, timed_calls
from circlet.profiling.profiler import random_inputs, resident_bytes
from circlet.profiling.roofline import TimedWork
from circlet.profiling.timing import time_session
from circlet.runtime.session import Session
from circlet.stored import Bytes, StrPath


@dataclass(frozen=True)
class Profile:
    """All kernel calls of a network in order.

    Attributes:
        call_us: One run as a user sees it, without timing the steps.
        numpy_us: What the parts take that numpy runs.
        resident_bytes: Packed constants and arenas: what a run goes through.
    """

    rows: tuple[TimedWork, ...]
    call_us: float
    numpy_us: float
    resident_bytes: int
    threads: int


def profile(
    source: StrPath | Bytes, threads: int, seconds: float = 0.6, target: str = "native"
) -> Profile:
    """Run a network on random inputs for about so many seconds, timing each step.

    Args:
        target: What to compile for, as `Options.target`.

    Raises:
        CircletError: It cannot be read, compiled or run.
    """
    session = Session.of(source, Options(target=target), threads=threads)
    times = time_session(session, random_inputs(session), seconds=seconds)
    calls = list(timed_calls(session, planned_again(session), times.partitions))
    native = [call for call in calls if call.work.kernel != NUMPY]
    return Profile(
        tuple(TimedWork(call.work, call.range_us[0]) for call in native),
        times.fastest_ns / 1e3,
        sum(call.range_us[0] for call in calls if call.work.kernel == NUMPY),
        resident_bytes(session, calls),
        threads,
    )
