from __future__ import annotations

import json
from pathlib import Path

import pytest

from circlet.sample import Sample
from tests.cli.call import as_json, circlet

MODEL = Sample("float").model_path
FEW = ("--backend", "reference", "--seconds", "0.02")


def test_costs_are_measured_kept_and_told(tmp_path: Path) -> None:
    times = tmp_path / "exec_time.json"
    report = as_json("costs", MODEL, *FEW, "--check", "--export", times)
    (network,) = report["networks"]
    assert [row["kind"] for row in network["operators"]][-1] == "SOFTMAX"
    assert all(row["measured"] and row["us"] > 0 for row in network["operators"])
    assert sum(row["share"] for row in network["operators"]) == pytest.approx(1)
    (whole,) = network["wholes"]
    assert (whole["backend"], whole["threads"], whole["partitions"]) == ("reference", 1, 1)
    assert whole["measured_us"][1] <= whole["measured_us"][0] <= whole["measured_us"][2]
    assert report["partitions"][0]["ns"] > 0
    assert Path(report["database"]).exists() and report["machine"]["cores"] >= 1
    assert {row["left_out"] for row in report["misses"]} <= {"operator"}
    assert {"Conv2D", "Softmax"} <= json.loads(times.read_text())["reference"].keys()
    shown = circlet("costs", MODEL, *FEW, "--top", 2)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())  # a long path to the model wraps its line
    assert "on reference, 1 thread" in text and "measured" in text
    assert "kept in " in shown.output


def test_times_of_one_are_imported_and_forgotten(tmp_path: Path) -> None:
    times = tmp_path / "exec_time.json"
    times.write_text(
        '{"reference": {"Add": {"0": [[64, 3], [128, 5]]}}, "acl_cl": {"Add": {"0": [[1, 1]]}}}'
    )
    found = as_json("costs", "--import", times)
    assert (found["imported"], found["skipped"]) == (2, ["acl_cl"])
    shown = circlet("costs", "--forget")
    assert shown.exit_code == 0 and "forgotten:" in shown.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "nothing is asked for"),
        (("--check",), "nothing is asked for"),
        (("--forget", "--check"), "there is nothing to check"),
        ((MODEL, "--backend", "none"), "there is no such backend"),
        (("--import", "absent.json"), "times of operators cannot be"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: tuple[object, ...], why: str) -> None:
    shown = circlet("costs", *arguments)
    assert shown.exit_code == 1
    assert why in shown.output


def test_threads_are_numbers() -> None:
    assert circlet("costs", MODEL, "--threads", "1,none").exit_code == 2
