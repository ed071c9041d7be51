"""`circlet convert` between .tflite and .circle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.formats import load
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.runtime import networks


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


@pytest.mark.parametrize("suffix", [".onnx", "", ".txt"])
def test_a_suffix_without_a_format_is_refused(model: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"x{suffix}"
    assert as_json("convert", model, target, code=1)["error"]["code"] == "E-INPUT"
    assert not target.exists()


def test_a_file_that_cannot_be_written_ends_in_a_code(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "x.circle"
    assert as_json("convert", model, target, code=1)["error"]["code"] == "E-FILE"
