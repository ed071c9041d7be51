"""`circlet resize`: a network with other sizes of its inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.formats import load, save
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.windows import conv2d_attrs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A convolution over a picture of 8x8, and the mean of all pixels."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 2))
    weights = b.constant("w", np.ones((4, 3, 3, 2), np.float32))
    y = b.op("CONV_2D", [x, weights, None], conv2d_attrs("VALID", 2, 2), name="conv")
    save(b.output(y).model("serve"), tmp_path / "model.tflite")
    return tmp_path / "model.tflite"


@pytest.mark.smoke
def test_all_sizes_follow_from_the_inputs(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "resized.circle"
    report = as_json("resize", path, target, "--shape", "x=2,16,9,2")
    sizes = {row["name"]: (row["before"], row["after"]) for row in report["ends"]}
    assert sizes == {
        "x": ([1, 8, 8, 2], [2, 16, 9, 2]),
        "conv": ([1, 3, 3, 4], [2, 7, 4, 4]),
    }
    assert report["changed"] == 2
    model = load(target)
    assert [op.kind for op in model.main.ops] == ["CONV_2D"]
    assert [signature.key for signature in model.signatures] == ["serve"]
    x = np.ones((2, 16, 9, 2), np.float32)
    assert np.all(Session(target, backends=["reference"]).run([x])["conv"] == 18)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--shape", "x=2,2,2,2"], "E-GRAPH"),
        (["--shape", "x=2,2"], "E-INPUT"),
        (["--shape", "nix=1,8,8,2"], "E-INPUT"),
        (["--shape", "x=1,999999999,999999999,2"], "E-LIMIT"),
    ],
)
def test_sizes_that_do_not_go_are_refused(
    path: Path, tmp_path: Path, options: list[str], code: str
) -> None:
    target = tmp_path / "resized.tflite"
    assert as_json("resize", path, target, *options, code=1)["error"]["code"] == code
    assert not target.exists()


@pytest.mark.parametrize("text", ["x", "x=", "x=1,a", "x=1,,2", "=1", "x=-1"])
def test_what_is_no_shape_is_wrong_usage(path: Path, tmp_path: Path, text: str) -> None:
    name = "E-INPUT" if text == "=1" else None
    result = circlet("resize", path, tmp_path / "x.tflite", "--shape", text)
    assert result.exit_code == (1 if name else 2)


def test_sizes_in_constants_must_go_with_the_new_ones(tmp_path: Path) -> None:
    path = corpora.corpus("models/mobilenet_v1_0.25_128_quant.tflite")
    options = ("--shape", "input=1,224,224,3")
    error = as_json("resize", path, tmp_path / "x.tflite", *options, code=1)["error"]
    assert error["code"] == "E-GRAPH" and "MobilenetV1" in error["where"]


def test_open_sizes_become_numbers(tmp_path: Path) -> None:
    source, target = corpora.corpus("models/resnet8_cifar10_int8.tflite"), tmp_path / "x.tflite"
    as_json("resize", source, target, "--shape", "input_1_int8=3,32,32,3")
    model = load(target)
    assert all(None not in tensor.shape for tensor in model.main.used_tensors())
    x = np.random.default_rng(0).integers(-128, 127, (3, 32, 32, 3), np.int8)
    (got,) = Session(target, backends=["reference"]).run([x]).values()
    single = Session(source, backends=["reference"])
    for row, picture in zip(got, x, strict=True):
        (wanted,) = single.run([picture[None]]).values()
        assert np.array_equal(row[None], wanted)


def test_litert_agrees_on_the_resized_file(tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="it runs the resized file")
    source, target = corpora.corpus("models/resnet8_cifar10_int8.tflite"), tmp_path / "x.tflite"
    as_json("resize", source, target, "--shape", "input_1_int8=2,32,32,3")
    interpreter = litert.Interpreter(str(target), num_threads=1)
    interpreter.allocate_tensors()
    assert interpreter.get_output_details()[0]["shape"].tolist() == [2, 10]
