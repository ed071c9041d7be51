"""Profiles in the forms of other tools: each is held to the rules of its format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet import profile
from circlet.profiling import Profile
from circlet.profiling.export import FORMATS
from circlet.sample import Sample
from tests.cli.call import as_json, circlet


@pytest.fixture(scope="module")
def found() -> Profile:
    sample = Sample("int8")
    return profile(sample.model_path, [sample.image()], runs=6, threads=1, roofline=False)


def test_rows_of_csv_add_up_to_the_whole(found: Profile) -> None:
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](found))))
    assert [row["name"] for row in rows][-1] == "between kernels" and len(rows) == 8
    assert sum(float(row["us"]) for row in rows) == pytest.approx(found.whole_us, rel=1e-3)


def test_json_holds_the_rows_of_operators_and_calls(found: Profile) -> None:
    data = json.loads(FORMATS["json"](found))
    assert len(data["operators"]) == 7 and len(data["calls"]) == len(found.calls)
    assert data["whole_us"] == found.whole_us and "overhead" in data


def test_snpe_files_are_those_of_ones_runtime(found: Profile) -> None:
    data = json.loads(FORMATS["snpe"](found))
    assert data["version"] == "2" and list(data["Execution_Data"]) == ["memory", "runtime", "cpu"]
    graph = data["Execution_Data"]["runtime"]["Graph"]
    assert list(graph) == ["Avg_Time", "Max_Time", "Min_Time", "Runtime"]
    ops = data["Execution_Data"]["cpu"]
    assert "$0 subgraph $3 CONV_2D" in ops and all(len(name.split()) == 4 for name in ops)
    for row in [graph, *ops.values()]:
        assert all(isinstance(row[f"{name}_Time"], int) for name in ("Avg", "Max", "Min"))
        assert row["Min_Time"] <= row["Avg_Time"] <= row["Max_Time"]


def test_markdown_tables_are_those_of_ones_runtime(found: Profile) -> None:
    lines = FORMATS["markdown"](found).splitlines()
    assert lines[0] == "# Session: 0, Subgraph: 0, Running count: 6"
    assert lines[2].startswith("| latency(us) | rss_min(kb) |") and "## Op " in lines
    rows = [line for line in lines if line.startswith("| $0 subgraph @")]
    assert len(rows) == 6 and all(line.count("|") == 9 for line in rows)


def test_traces_nest_operators_and_kernels_in_the_run(found: Profile) -> None:
    data = json.loads(FORMATS["trace"](found))
    spans = [event for event in data["traceEvents"] if event["ph"] == "X"]
    run = next(event for event in spans if event["name"] == "run")
    assert run["dur"] == pytest.approx(found.whole_us, abs=0.01)
    for event in spans:
        assert event["ts"] >= 0 and event["ts"] + event["dur"] <= run["dur"] + 0.01
    assert {"conv", "features"} <= {event["name"] for event in spans}


def test_speedscope_events_open_and_close_in_turn(found: Profile) -> None:
    data = json.loads(FORMATS["speedscope"](found))
    (one,) = data["profiles"]
    stack: list[int] = []
    before = 0.0
    for event in one["events"]:
        assert event["at"] >= before and 0 <= event["frame"] < len(data["shared"]["frames"])
        before = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack and before <= one["endValue"]


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    model = Sample("int8").model_path
    few = ("--runs", 2, "--no-roofline", "--threads", 1)
    trace, table, values = tmp_path / "t.json", tmp_path / "p.csv", tmp_path / "v.npz"
    words = ("--tensors", "features", "--save-tensors", values, "--trace", trace, "--top", 2)
    shown = circlet("profile", model, *few, *words).output
    for text in ("between kernels", "the whole run", "5 others", "features", "trace written"):
        assert text in shown
    assert json.loads(trace.read_text())["traceEvents"]
    assert np.load(values)["features"].shape == (1, 4, 4, 32)
    assert not circlet("profile", model, *few, "--format", "csv", "-o", table).output
    assert table.read_text().startswith("id,name,kind,us")


def test_the_command_answers_machines() -> None:
    found: Any = as_json("profile", Sample("int8").model_path, "--runs", 2, "--no-roofline")
    assert {row["name"] for row in found["operators"]} >= {"conv", "classifier"}
    assert found["tensors"] == []


@pytest.mark.parametrize("words", [("-o", "x.txt"), ("--save-tensors", "x.npz")])
def test_options_that_would_do_nothing_are_refused(words: tuple[str, str], tmp_path: Path) -> None:
    target = tmp_path / words[1]
    error = as_json("profile", Sample("int8").model_path, words[0], target, code=1)["error"]
    assert error["code"] == "E-INPUT" and not target.exists()
