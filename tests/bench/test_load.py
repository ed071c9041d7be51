"""Figures of a loaded machine do not come to a page unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import bf16, compile_time, load, measure, report, scaling
from bench.bf16_result import Rounded
from bench.load import Moment, busy_seconds, reason
from bench.page import page
from bench.result import Run

STAT = """\
cpu  400 0 400 800 0 0 0 0 0 0
cpu0 100 10 200 500 50 1 2 3 0 0
cpu1 300 0 200 300 0 0 0 0 0 0
intr 12
"""
RUN = Run({"cpus": 2, "load": 0.1}, {"rounds": 3}, {}, [], "2026-01-01T00:00:00Z", {})
LOADED = {"cpus": 2, "others_before": 0.0, "others_during": 1.5}


def test_busy_time_is_that_of_the_cpus_that_may_be_used() -> None:
    assert busy_seconds(STAT, {0}, 100) == pytest.approx(3.16)
    assert busy_seconds(STAT, {0, 1}, 100) == pytest.approx(8.16)


def test_others_are_what_is_left_of_busy_time_without_ours() -> None:
    begin = Moment(10.0, 100.0, 5.0)
    assert begin.others_until(Moment(14.0, 108.0, 9.0)) == pytest.approx(1.0)
    assert begin.others_until(Moment(14.0, 103.9, 9.0)) == 0.0


def test_what_the_system_tells_is_understood() -> None:
    first, second = Moment.now(), Moment.now()
    assert second.busy >= first.busy > 0 and second.own >= first.own > 0


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (LOADED, "other processes used 1.5 cores"),
        ({"others_before": 0.3, "others_during": 0.0}, "other processes used 0.3 cores"),
        ({"others_before": 0.1, "others_during": 0.1, "load": 9.0}, ""),
        ({"cpus": 2, "load": 9.0}, "a load of 9 on 2 CPUs"),
        ({"cpus": 2, "load": 1.1}, ""),
        ({}, ""),
    ],
)
def test_a_machine_is_loaded_by_what_others_did_on_it(
    machine: dict[str, object], words: str
) -> None:
    assert reason(machine) == words


def test_no_page_is_made_of_figures_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    for newest in ("scaling_result", "bf16_result", "compile_time_result"):
        monkeypatch.setattr(f"bench.{newest}.newest", lambda _: None)
    with pytest.raises(SystemExit, match=r"no page: .*latency, other processes used 1.5 cores"):
        report.write(replace(RUN, machine=LOADED))


def test_one_part_under_load_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for newest in ("scaling_result", "compile_time_result"):
        monkeypatch.setattr(f"bench.{newest}.newest", lambda _: None)
    rounded = Rounded("today", {"cpus": 2, "load": 9.0}, [])
    monkeypatch.setattr("bench.bf16_result.newest", lambda _: rounded)
    with pytest.raises(SystemExit, match="bf16, a load of 9 on 2 CPUs"):
        report.write(RUN)


def test_a_page_that_was_asked_for_says_so() -> None:
    assert "Measured under load" not in page(RUN)
    text = page(replace(RUN, machine=LOADED))
    assert "**Measured under load, so times may be too long**: latency, other processes" in text


class Busy(load.Watch):
    def __init__(self) -> None:
        self._begin, self._before = Moment.now(), 3.0


@pytest.mark.parametrize("command", [measure, bf16, compile_time, scaling])
def test_what_feeds_the_page_is_not_measured_under_load(
    command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "Watch", Busy)
    monkeypatch.setattr(measure, "chosen", lambda *_: [measure.CORPUS / "none.tflite"])
    with pytest.raises(SystemExit, match="not measured: other processes used 3 cores"):
        command.main([])  # type: ignore[attr-defined]
