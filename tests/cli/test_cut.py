"""`circlet cut`: a part of a network as a network of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.backends.base import Observation
from circlet.formats import load, save
from circlet.ir import DType, Model
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.runtime import networks

BACKENDS = ["reference"]


def diamond() -> Model:
    """x -> a -> (b, c) -> sum -> end."""
    b = builder()
    a = b.op("ABS", [b.input("x", DType.FLOAT32, (1, 4))], name="a")
    total = b.op("ADD", [b.op("TANH", [a], name="b"), b.op("RELU", [a], name="c")], name="sum")
    return b.output(b.op("NEG", [total], name="end")).model("serving_default")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(diamond(), tmp_path / "model.tflite")
    return tmp_path / "model.tflite"


def kinds(path: Path) -> list[str]:
    return [op.kind for op in load(path).main.ops]


@pytest.mark.smoke
def test_the_part_computes_what_it_did_in_the_whole(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.circle"
    report = as_json("cut", path, target, "--from", "tensor:a", "--to", "sum")
    assert (report["ops"], report["all_ops"], report["format"]) == (3, 5, "circle")
    assert [row["name"] for row in report["inputs"]] == ["a"]
    x, seen = np.array([[-2, -1, 0, 3]], np.float32), dict[str, np.ndarray]()

    def observe(at: Observation) -> None:
        seen.update({value.name: value.array.copy() for value in at.values})

    Session(path, level="O0", backends=BACKENDS).run([x], observer=observe)
    got = Session(target, level="O0", backends=BACKENDS).run([seen["a"]])["sum"]
    assert np.array_equal(got, seen["sum"])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--from", "a", "--to", "sum"], ["ABS", "TANH", "RELU", "ADD"]),
        (["--from", "op:b", "--from", "c", "--to", "sum"], ["TANH", "RELU", "ADD"]),
        (["--from", "#4"], ["NEG"]),
        (["--to", "c"], ["ABS", "RELU"]),
        (["--to", "b", "--to", "c"], ["ABS", "TANH", "RELU"]),
        ([], ["ABS", "TANH", "RELU", "ADD", "NEG"]),
    ],
)
def test_ends_are_operators_or_tensors(
    path: Path, tmp_path: Path, options: list[str], wanted: list[str]
) -> None:
    target = tmp_path / "part.tflite"
    assert circlet("cut", path, target, *options).exit_code == 0
    assert kinds(target) == wanted


def test_operators_keep_their_origin(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.tflite"
    as_json("cut", path, target, "--from", "sum")
    before = {op.name: op.origin for op in load(path).main.ops}
    assert {op.name: op.origin for op in load(target).main.ops} == {
        name: before[name] for name in ("sum", "end")
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--from", "b", "--from", "tensor:x", "--to", "end"], "nothing lies between"),
        (["--from", "tensor:b", "--to", "sum"], "not closed"),
        (["--from", "end", "--to", "a"], "not closed"),
        (["--to", "x"], "nothing lies between"),
        (["--from", "nix"], "nothing in the network"),
        (["--from", "#77"], "nothing in the network"),
        (["--from", "op:x"], "nothing in the network"),
    ],
)
def test_a_cut_that_is_none_is_refused(
    path: Path, tmp_path: Path, options: list[str], word: str
) -> None:
    target = tmp_path / "part.tflite"
    error = as_json("cut", path, target, *options, code=1)["error"]
    assert (error["code"], word in error["what"]) == ("E-INPUT", True), error
    assert not target.exists()


def test_a_repeated_name_asks_for_a_number(tmp_path: Path) -> None:
    b = builder()
    y = b.op("ABS", [b.input("x", DType.FLOAT32, (2,))], name="y")
    save(b.output(b.op("TANH", [y], name="y")).model(), tmp_path / "x.tflite")
    error = as_json("cut", tmp_path / "x.tflite", tmp_path / "y.tflite", "--to", "y", code=1)
    assert "#0, #1" in error["error"]["why"]
    as_json("cut", tmp_path / "x.tflite", tmp_path / "y.tflite", "--to", "#0")
    assert kinds(tmp_path / "y.tflite") == ["ABS"]


def test_all_operators_of_an_onnx_node_belong_to_it(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it reads .onnx files")
    source, target = corpora.corpus("models/mnist-8.onnx"), tmp_path / "part.circle"
    report = as_json("cut", source, target, "--from", "Convolution110", "--to", "ReLU114")
    assert [row["shape"] for row in report["inputs"]] == [[1, 8, 14, 14]]
    assert [row["name"] for row in report["outputs"]] == ["ReLU114_Output_0"]
    assert {op.name for op in load(target).main.ops} == {"Convolution110", "Plus112", "ReLU114"}


def test_state_is_not_cut_in_two(tmp_path: Path) -> None:
    path = corpora.corpus("models/microwakeword_v2_vad.tflite")
    graph = load(path).main
    reads = next(n for n, op in enumerate(graph.ops) if op.kind == "READ_VARIABLE")
    options = ["--from", f"tensor:{graph.ops[reads].outputs[0].name}", "--to", "#14"]
    assert (
        as_json("cut", path, tmp_path / "x.tflite", *options, code=1)["error"]["code"] == "E-INPUT"
    )


def test_loops_come_with_what_they_run(tmp_path: Path) -> None:
    path, target = corpora.corpus("models/while_dynamic.tflite"), tmp_path / "x.tflite"
    loop = next(n for n, op in enumerate(load(path).main.ops) if op.kind == "WHILE")
    as_json("cut", path, target, "--to", f"#{loop}")
    assert [len(op.regions) for op in load(target).main.ops if op.kind == "WHILE"] == [2]


def test_only_files_that_can_be_written_are_made(path: Path, tmp_path: Path) -> None:
    assert as_json("cut", path, tmp_path / "x.mlir", code=1)["error"]["code"] == "E-INPUT"
    assert as_json("cut", path, path, code=1)["error"]["code"] == "E-INPUT"


def test_a_cut_of_a_sample_network_runs(tmp_path: Path) -> None:
    (tmp_path / "two.tflite").write_bytes(networks.sum_and_difference())
    as_json("cut", tmp_path / "two.tflite", tmp_path / "one.tflite", "--to", "sum")
    session = Session(tmp_path / "one.tflite", backends=BACKENDS)
    assert list(session.run([np.ones((2, 3), np.float32)] * 2)) == ["sum"]
