"""What `python -m bench disturbed` and `python -m bench shares` work out."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.disturbed import BusyProcess, Row, Setting
from bench.shares import Shared, least_us


@pytest.mark.parametrize(
    ("us", "tasks", "threads", "least"),
    [
        (160.0, 16, 16, 10.0),
        (170.0, 17, 16, 20.0),
        (160.0, 8, 16, 20.0),
        (3.0, 8, 16, 1.5),  # no more than two threads are worth it
        (50.0, 1, 16, 50.0),
        (0.0, 0, 16, 0.0),
    ],
)
def test_threads_take_the_time_of_the_one_with_most_tasks(
    us: float, tasks: int, threads: int, least: float
) -> None:
    assert least_us(us, tasks, threads) == pytest.approx(least)


def test_what_a_call_loses_is_counted_from_equal_parts() -> None:
    assert Shared("kernel", "source", 8, 160.0, 20.0).lost_us(16) == pytest.approx(10.0)


def test_gains_compare_times_in_one_state_of_the_cpus() -> None:
    times = {(1, False): 100.0, (2, False): 50.0, (1, True): 120.0, (2, True): 80.0}
    row = Row("circlet", {Setting(*setting): us for setting, us in times.items()})
    assert (row.gain(2, False), row.gain(2, True)) == (2.0, 1.5)
    assert row.text("net", 2).split()[-1] == "1.50"


def _state_and_ticks(pid: int) -> tuple[str, int]:
    """A process's state, and how long it has run so far."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return behind_name[0], int(behind_name[11])


def test_a_busy_process_runs_only_when_it_is_to_and_ends() -> None:
    cpu = max(os.sched_getaffinity(0))
    busy = BusyProcess(cpu)
    try:
        assert os.sched_getaffinity(busy.pid) == {cpu}
        _, before = _state_and_ticks(busy.pid)
        busy.set_busy(True)
        while _state_and_ticks(busy.pid)[1] == before:
            time.sleep(0.01)
        busy.set_busy(False)
        os.waitid(os.P_PID, busy.pid, os.WSTOPPED)
        assert _state_and_ticks(busy.pid)[0] == "T"
    finally:
        busy.close()
    assert not Path(f"/proc/{busy.pid}").exists()
