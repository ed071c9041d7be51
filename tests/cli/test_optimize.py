"""`circlet optimize`: files, lists of passes, what is printed, and bisection."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.formats import load, save
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ir.text import to_text
from circlet.ops.build import builder
from circlet.passes import Rewriter, pass_names
from circlet.passes.fuse_activation import FuseActivation
from tests.cli.call import as_json, circlet
from tests.corpora import corpus
from tests.passes.networks import F32, conv, image


def clamped(kind: str = "RELU6") -> Model:
    """A padded convolution, a clamp, a reshape to the same sizes, and what nobody reads."""
    b = builder()
    amounts = b.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = b.op("PAD", [image(b, F32), amounts], name="pad")
    y = b.op(kind, [conv(b, padded)], name="clamp")
    b.op("TANH", [y], name="unread")
    return b.output(b.op("NEG", [y], name="y")).model("serve")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    save(clamped(), path)
    return path


@pytest.mark.smoke
@pytest.mark.parametrize("suffix", ["circle", "tflite"])
def test_a_better_file_is_written_with_its_origins(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / f"out.{suffix}"
    report = as_json("optimize", model, target, "--check")
    assert report["before"]["operators"] == 5 and report["after"]["operators"] == 2
    assert report["after"]["macs"] == report["before"]["macs"] > 0
    assert report["after"]["bytes_moved"] < report["before"]["bytes_moved"]
    assert (report["format"], report["settled"]) == (suffix, True)
    assert report["size_bytes"] == target.stat().st_size
    assert [op.name for op in load(target).main.ops] == ["pad+conv+clamp", "y"]
    x = np.linspace(-3, 3, 72, dtype=np.float32).reshape(1, 6, 6, 2)
    first, second = (Session(p, backends=("reference",)).run([x])["y"] for p in (model, target))
    np.testing.assert_array_equal(second, first)


def test_what_passes_changed_is_told_by_source_names(model: Path, tmp_path: Path) -> None:
    report = as_json("optimize", model, tmp_path / "o.circle", "-O1")
    fused = next(row for row in report["passes"] if row["name"] == "fuse-activation")
    assert fused["removed"] == ["CONV_2D pad+conv", "RELU6 clamp"]
    assert fused["added"] == ["CONV_2D pad+conv+clamp"]
    shown = circlet("optimize", model, tmp_path / "o.circle", "--changes", "--time-passes")
    assert "  - RELU6 clamp\n" in shown.output and "  + CONV_2D pad+conv+clamp\n" in shown.output
    assert "2 rounds, the last of which changed nothing" in shown.output
    assert re.search(r"\d [um]s\b", shown.output) and "  ~" not in shown.output


def test_named_passes_run_and_no_others(model: Path, tmp_path: Path) -> None:
    named = ("--pass", "remove-dead-ops", "--pass", "split-sums most=2")
    report = as_json("optimize", model, tmp_path / "o.circle", *named)
    assert [row["name"] for row in report["passes"]] == ["remove-dead-ops", "split-sums"]
    assert report["after"]["operators"] == 4


def test_a_list_of_passes_has_comments(model: Path, tmp_path: Path) -> None:
    names = tmp_path / "list.txt"
    names.write_text("# mine\nfuse-pad  # first\n\nfuse-activation\n")
    report = as_json("optimize", model, tmp_path / "o.circle", "--passes", names)
    assert [row["name"] for row in report["passes"]] == ["fuse-pad", "fuse-activation"]
    names.write_text("fuse-pad\nfuse-pat\n")
    error = as_json("optimize", model, tmp_path / "o.circle", "--passes", names, code=1)["error"]
    assert error["code"] == "E-INPUT" and "line 2: fuse-pat" in error["where"]
    assert "fuse-pad" in error["fix"]


def test_level_zero_writes_the_network_as_it_is(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "o.tflite"
    assert as_json("optimize", model, target, "-O0")["passes"] == []
    assert len(load(target).main.ops) == 5
    assert "no pass ran" in circlet("optimize", model, target, "-O0").output


def test_the_network_is_printed_after_a_pass(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "o.circle"
    shown = circlet("optimize", model, target, "--print-after", "fuse-pad").output
    assert shown.startswith("; after fuse-pad, round 1\n") and "RELU6" in shown
    printed = as_json("optimize", model, target, "--print-after", "all")["printed"]
    names = [entry["name"] for entry in printed]
    assert names == ["add-biases", "fuse-pad", "fuse-activation", "remove-dead-ops"]
    assert "PAD(" in to_text(load(model)) and "PAD(" not in printed[1]["text"]
    error = as_json("optimize", model, target, "--print-after", "fuse-pat", code=1)["error"]
    assert "fuse-pad" in error["fix"]


def test_every_pass_is_listed() -> None:
    rows = as_json("optimize", "--list")
    assert [row["name"] for row in rows] == list(pass_names())
    assert all(row["summary"] for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["fold-constants"]["is_exact"] and by_name["fuse-pad"]["file_levels"]
    assert by_name["split-sums"]["options"] == ["most"]
    assert by_name["split-sums"]["native_only"]
    assert not by_name["fold-scales"]["is_exact"] and by_name["fold-scales"]["why"]
    assert "bit-exact" in circlet("optimize", "--list").output


@pytest.mark.parametrize(
    "arguments",
    [
        ["in.tflite"],
        [],
        ["in.tflite", "o.circle", "-O1", "--pass", "fuse-pad"],
        ["in.tflite", "o.circle", "--bisect", "random"],
        ["in.tflite", "o.circle", "--seed", "1"],
        ["in.tflite", "--bisect", "random", "--changes"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert circlet("optimize", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("target", "option"),
    [("o.mlir", ()), ("o", ()), ("o.circle", ("--pass", "fuse-pad depth=3")), ("in.tflite", ())],
)
def test_what_cannot_be_done_ends_in_a_code(
    model: Path, target: str, option: tuple[str, ...]
) -> None:
    path = model.parent / target
    error = as_json("optimize", model, path, *option, code=1)["error"]
    assert error["code"] == "E-INPUT"
    assert path == model or not path.exists()


def test_what_the_format_cannot_hold_names_the_operator(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 8))
    y = b.op("RMS_NORM", [x, b.constant("gamma", np.ones(8, np.float32))], name="norm")
    save(b.output(y).model(), tmp_path / "m.circle")
    target = tmp_path / "o.tflite"
    error = as_json("optimize", tmp_path / "m.circle", target, "-O0", code=1)["error"]
    assert error["code"] == "E-FORMAT" and "norm" in error["where"] and not target.exists()
    for option in (("-O1",), ("--pass", "decompose")):
        assert as_json("optimize", tmp_path / "m.circle", target, *option)
        assert "RMS_NORM" not in [op.kind for op in load(target).main.ops]
        target.unlink()


def break_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fuse-activation forget the bound of RELU6."""

    def run(self: FuseActivation, graph: Graph) -> bool:
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "RELU6":
                rewriter.replace([op], replace(op, kind="RELU"))
        return rewriter.finish()

    monkeypatch.setattr(FuseActivation, "run", run)


def test_a_broken_pass_is_found(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_json("optimize", model, "--bisect", "random")["culprit"] is None
    break_fusion(monkeypatch)
    report = as_json("optimize", model, "--bisect", "random", "--seed", "3", code=1)
    assert report["culprit"]["step"]["name"] == "fuse-activation"
    assert report["culprit"]["operators"] == ["RELU clamp"]
    assert report["culprit"]["step"]["difference"] > 0
    assert report["inputs"] == ["random data (seed 3)"]
    shown = circlet("optimize", model, "--bisect", "random")
    assert shown.exit_code == 1
    assert "fuse-activation, round 1, is the first to change results" in shown.output


def test_inputs_decide_what_bisection_sees(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_fusion(monkeypatch)
    nothing, much = tmp_path / "nothing.npy", tmp_path / "much.npz"
    np.save(nothing, np.zeros((1, 6, 6, 2), np.float32))
    np.savez(much, x=np.full((1, 6, 6, 2), 50, np.float32))
    assert as_json("optimize", model, "--bisect", nothing)["culprit"] is None
    assert as_json("optimize", model, "--bisect", much, code=1)["culprit"]
    assert as_json("optimize", model, "--bisect", much, "--tolerance", "1e6")["culprit"] is None
    error = as_json("optimize", model, "--bisect", nothing, "--bisect", much, code=1)["error"]
    assert "2 input files given" in error["what"]


def test_an_onnx_network_becomes_a_circle_file(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    source, target = corpus("models/mnist-8.onnx"), tmp_path / "o.circle"
    report = as_json("optimize", source, target, "--check")
    assert report["after"]["operators"] < report["before"]["operators"]
    names = {s.name for op in load(source).main.ops for s in op.origin.sources}
    assert {s.name for op in load(target).main.ops for s in op.origin.sources} <= names


def test_what_is_counted_is_the_file_that_was_written(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    b = builder()
    x = b.input("x", DType.INT8, (1, 8), Quantization.per_tensor(0.1))
    y = b.op("ADD", [x, x], quant=Quantization.per_tensor(0.2), name="y")
    save(b.output(y).model(), tmp_path / "m.tflite")
    for name in ("o.onnx", "o.circle"):
        report = as_json("optimize", tmp_path / "m.tflite", tmp_path / name)
        seen = as_json("inspect", tmp_path / name)
        assert report["before"]["operators"] == 1
        assert report["after"]["operators"] == len(seen["operators"])
    assert len(seen["operators"]) == 1


def test_packed_constants_are_sound_in_files(tmp_path: Path) -> None:
    b = builder()
    values = np.zeros((16, 16), np.float32)
    values[3, 5] = 2
    x, weights = b.input("x", DType.FLOAT32, (1, 16)), b.constant("w", values)
    save(b.output(b.op("FULLY_CONNECTED", [x, weights], name="y")).model(), tmp_path / "m.circle")
    sparse = ("--pass", "sparsify tensors=w")
    report = as_json("optimize", tmp_path / "m.circle", tmp_path / "o.circle", *sparse, "--check")
    assert report["after"]["constant_bytes"] < report["before"]["constant_bytes"]
