"""`circlet map`: from operators of the file to kernel calls, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.formats import save
from circlet.ir import DType, Model
from circlet.ops.build import builder
from circlet.passes import pipeline
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.passes.networks import F32, conv, image


def network() -> Model:
    """A convolution with its activation, a constant branch, and a branch that nobody reads."""
    b = builder()
    relu = b.op("RELU", [conv(b, image(b, F32))], name="relu")
    b.op("TANH", [relu], name="unread")
    known = b.op("ABS", [b.constant("minus", np.full(1, -2, np.float32))], name="known")
    return b.output(b.op("ADD", [relu, known], name="sum")).model()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(network(), tmp_path / "model.tflite")
    return tmp_path / "model.tflite"


@pytest.mark.smoke
def test_the_way_leads_to_what_runs_and_back(path: Path) -> None:
    report = as_json("map", path, "--backend", "reference")
    sources = {row["name"]: row for row in report["sources"]}
    operators = report["operators"]
    for row in report["sources"]:
        for number in row["operators"]:
            assert row["name"] in operators[number]["sources"]
    for row in operators:
        assert all(row["number"] in sources[name]["operators"] for name in row["sources"])
    assert sources["conv"]["operators"] == sources["relu"]["operators"] == [0]
    assert sources["conv"]["kinds"] == ["CONV_2D"]
    assert (operators[0]["partition"], operators[0]["backend"]) == (0, "reference")
    assert report["origins"]["conv"] == ["conv"]


def test_what_has_no_operator_says_why(path: Path) -> None:
    report = as_json("map", path, "--backend", "reference")
    gone = {row["name"]: row["why_none"] for row in report["sources"] if not row["operators"]}
    assert gone == {"unread": "nothing that reaches an output reads its results"}
    sources = {row["name"]: row["operators"] for row in report["sources"]}
    assert sources["known"] == sources["sum"]  # whoever reads a folded constant inherits it


def test_kernel_calls_are_named(path: Path) -> None:
    operators = as_json("map", path)["operators"]
    assert all(row["backend"] == "cpu" and row["calls"] for row in operators)
    text = circlet("map", path).stdout
    assert "From the file to what runs" in text and "conv + relu" in text


def test_an_optimised_file_still_speaks_of_the_first_one(path: Path, tmp_path: Path) -> None:
    model = network()
    pipeline("O2").run(model)
    target = tmp_path / "optimised.circle"
    save(model, target)
    report = as_json("map", target, "--backend", "reference")
    assert {row["name"] for row in report["sources"]} == {"conv", "relu", "known", "sum"}
    assert report["origins"]["relu"] == ["conv", "relu"]


def test_origins_are_read_from_a_file_beside_the_model(path: Path, tmp_path: Path) -> None:
    origins = tmp_path / "origins.json"
    origins.write_text('{"relu": ["layer 1"], "conv": ["layer 1"]}')
    report = as_json("map", path, "--origins", origins, "--backend", "reference")
    (layer,) = (row for row in report["sources"] if row["name"] == "layer 1")
    assert (layer["operators"], layer["kinds"]) == ([0], ["CONV_2D", "RELU"])


def test_rows_are_found_by_any_name(path: Path) -> None:
    report = as_json("map", path, "--find", "RELU", "--backend", "reference")
    assert [row["name"] for row in report["sources"]] == ["conv", "relu"]
    assert [row["number"] for row in report["operators"]] == [0]


def test_operators_inside_of_loops_lead_to_the_loop() -> None:
    report = as_json("map", corpora.corpus("models/while_dynamic.tflite"))
    (loop,) = (row["number"] for row in report["operators"] if row["kind"] == "WHILE")
    inner = [row for row in report["sources"] if "while_body" in row["name"]]
    assert inner and all(row["operators"] in ([loop], []) for row in inner)


def test_onnx_nodes_go_by_their_names() -> None:
    pytest.importorskip("onnx", reason="it reads .onnx files")
    report = as_json("map", corpora.corpus("models/mnist-8.onnx"))
    names = [row["name"] for row in report["sources"]]
    assert names[:3] == ["Convolution28", "Plus30", "ReLU32"]
    assert all(row["operators"] for row in report["sources"])


def test_a_name_with_two_meanings_is_told_apart(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2,))
    y = b.op("TANH", [b.op("ABS", [x], name="y")], name="y")
    save(b.output(y).model(), tmp_path / "x.tflite")
    report = as_json("map", tmp_path / "x.tflite", "--backend", "reference")
    assert [row["name"] for row in report["sources"]] == ["y#0", "y#1"]
    assert [row["operators"] for row in report["sources"]] == [[0], [1]]


def test_loops_of_unknown_turns_run_where_sessions_run_them(tmp_path: Path) -> None:
    """Plans have the room that sessions begin with."""
    from tests.formats.loop_nets import MOST, collecting  # which needs the package onnx

    stored = tmp_path / "collecting.onnx"
    stored.write_bytes(collecting(MOST))
    for command, rows in (("map", "operators"), ("inspect", "placement"), ("place", "operators")):
        assert [row["backend"] for row in as_json(command, stored)[rows]] == ["cpu"], command
