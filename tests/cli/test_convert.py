"""`circlet convert` between .tflite and .circle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.commands.storing import make_storable
from circlet.formats import dumps, load
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.runtime import networks
from tests.windows import conv2d_attrs


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(networks.sum_and_difference())
    return path


@pytest.mark.smoke
def test_there_and_back_computes_the_same(model: Path, tmp_path: Path) -> None:
    circle, again = tmp_path / "two.circle", tmp_path / "again.tflite"
    report = as_json("convert", model, circle)
    assert (report["format"], report["ops"], report["tensors"]) == ("circle", 2, 4)
    assert report["size_bytes"] == circle.stat().st_size
    assert load(circle).source_format == "circle"
    assert circlet("convert", circle, again).exit_code == 0
    inputs = [np.ones((2, 3), np.float32), np.full((2, 3), 4, np.float32)]
    for path in (model, circle, again):
        outputs = Session(path).run(inputs)
        assert outputs["sum"].tolist() == [[5] * 3] * 2


def test_all_graphs_and_signatures_come_along(tmp_path: Path) -> None:
    name = "singleop/models/LiteRT__core_testdata_multi_signature_model.tflite"
    target = tmp_path / "x.circle"
    assert as_json("convert", corpora.corpus(name), target)["graphs"] == 3
    assert [signature.key for signature in load(target).signatures] == ["add", "mul", "sub"]


@pytest.mark.parametrize("suffix", ["", ".txt"])
def test_a_suffix_without_a_format_is_refused(model: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"x{suffix}"
    assert as_json("convert", model, target, code=1)["error"]["code"] == "E-INPUT"
    assert not target.exists()


def test_onnx_files_are_written_and_read_again(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it writes .onnx files")
    target, again = tmp_path / "two.onnx", tmp_path / "again.tflite"
    report = as_json("convert", model, target)
    assert (report["format"], report["size_bytes"]) == ("onnx", target.stat().st_size)
    as_json("convert", target, again)
    assert [op.name for op in load(again).main.ops] == [op.name for op in load(model).main.ops]
    for command in ("optimize", "cut"):
        made = tmp_path / f"{command}.onnx"
        as_json(command, model, made)
        assert load(made).source_format == "onnx"


def onnx_files() -> list[str]:
    unread = {"deeploy_resnet8_requantshift.onnx", "super_resolution_ort_extensions.onnx"}
    return sorted({path.name for path in (corpora.ROOT / "models").glob("*.onnx")} - unread)


@corpora.each("name", onnx_files(), ("mnist-8.onnx", "keypoint_classifier.onnx"))
def test_onnx_files_become_circle_and_then_tflite(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it reads .onnx files")
    source = corpora.corpus(f"models/{name}")
    circle, target = tmp_path / "x.circle", tmp_path / "x.tflite"
    as_json("convert", source, circle)
    report = as_json("convert", circle, target, "--origins", tmp_path / "origins.json")
    names = {op.name for graph in load(source).graphs for op in graph.ops}
    stored = [op for graph in load(target).graphs for op in graph.ops]
    assert {op.name for op in stored} == names
    assert report["ops"] == len(stored) == len(json.loads((tmp_path / "origins.json").read_text()))
    assert as_json("diff", circle, target)["is_same"]


def test_a_padding_by_amounts_is_written_as_an_operator(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4, 4, 1))
    weights = b.constant("w", np.ones((1, 3, 3, 1), np.float32))
    attrs = replace(conv2d_attrs("VALID"), padding=((2, 0), (0, 2)))
    model = b.output(b.op("CONV_2D", [x, weights, None], attrs, name="conv")).model()
    make_storable(model)
    (tmp_path / "x.tflite").write_bytes(dumps(model, "tflite"))
    ops = load(tmp_path / "x.tflite").main.ops
    assert [(op.kind, op.name) for op in ops] == [("PAD", "conv"), ("CONV_2D", "conv")]
    (got,) = (
        Session(tmp_path / "x.tflite", backends=["reference"])
        .run([np.ones((1, 4, 4, 1), np.float32)])
        .values()
    )
    assert got[0, :, :, 0].tolist() == [[3, 3, 2, 1], [6, 6, 4, 2], [9, 9, 6, 3], [9, 9, 6, 3]]


def test_a_file_that_cannot_be_written_ends_in_a_code(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "x.circle"
    assert as_json("convert", model, target, code=1)["error"]["code"] == "E-FILE"
