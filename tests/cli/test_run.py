from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circlet import save
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.sample import Sample
from tests.cli.call import as_json, circlet, in_shell
from tests.runtime import networks

PIL = pytest.importorskip("PIL.Image", reason="pictures need Pillow")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(networks.sum_and_difference())
    return path


@pytest.fixture
def vector(tmp_path: Path) -> Path:
    path = tmp_path / "relu.tflite"
    path.write_bytes(networks.relu())
    return path


@pytest.fixture
def x(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.array([3, -1, 5, 0, 4, 1], np.float32))
    return tmp_path / "x.npy"


@pytest.mark.smoke
def test_the_embedded_sample_names_the_digit() -> None:
    result = circlet("run")
    assert result.exit_code == 0
    digit = Sample().expected
    assert f"the picture shows: {digit}" in result.stdout
    report = as_json("run")
    assert report["answers"][0]["top"][0]["label"] == digit == report["expected"]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_sample_gives_the_same_scores_on_every_backend(backend: str) -> None:
    report = as_json("run", "--backend", backend)
    assert report["native_ops"] == (report["ops"] if backend == "cpu" else 0)
    best = report["answers"][0]["top"][0]
    assert best["index"] == int(np.argmax(Sample.int8_scores()[Sample().picture]))


@pytest.mark.parametrize("size", [(8, 8), (3, 5), (200, 123), (1, 1)])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1"])
def test_a_picture_of_any_size_and_mode_is_fitted(
    tmp_path: Path, size: tuple[int, int], mode: str
) -> None:
    PIL.new(mode, size).save(tmp_path / "p.png")
    report = as_json("run", "--input", tmp_path / "p.png")
    assert len(report["answers"][0]["top"]) == 5
    assert report["expected"] == ""


def test_a_shipped_picture_read_from_a_file_gives_its_digit(tmp_path: Path) -> None:
    images, labels = Sample.pictures()
    pixels = np.rint(images[3, :, :, 0] * 255).astype(np.uint8)
    PIL.fromarray(pixels).save(tmp_path / "digit.png")
    report = as_json("run", "--input", tmp_path / "digit.png")
    assert report["answers"][0]["top"][0]["index"] == labels[3]


@pytest.mark.smoke
def test_array_files_are_inputs(model: Path, tmp_path: Path) -> None:
    left, right = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    np.savez(tmp_path / "l.npz", left=left, other=right)
    (tmp_path / "r.raw").write_bytes(right.tobytes())
    out = tmp_path / "out.npz"
    inputs = ("--input", tmp_path / "l.npz", "--input", tmp_path / "r.raw")
    assert circlet("run", model, *inputs, "--output", out).exit_code == 0
    with np.load(out) as written:
        np.testing.assert_array_equal(written["sum"], left + right)
        np.testing.assert_array_equal(written["difference"], left - right)


def test_sizes_of_one_may_be_missing_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", Sample().image()[0, :, :, 0])
    best = as_json("run", "--input", tmp_path / "x.npy")["answers"][0]["top"][0]
    assert best["label"] == Sample().expected


def test_best_classes_come_in_order_with_labels(vector: Path, x: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\nc\nd\ne\nf\n", encoding="utf-8")
    report = as_json("run", vector, "--input", x, "--labels", labels, "--top", 3)
    assert [(c["label"], c["score"]) for c in report["answers"][0]["top"]] == [
        ("c", 5.0),
        ("e", 4.0),
        ("a", 3.0),
    ]


def test_people_see_classes_where_there_are_labels(vector: Path, x: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\nc\nd\n[e]\nf\n", encoding="utf-8")
    arguments = ("run", vector, "--input", x, "--top", 6)
    plain = " ".join(circlet(*arguments).stdout.split())
    assert "least most mean first values" in plain and "class score" not in plain
    shown = " ".join(circlet(*arguments, "--labels", labels).stdout.split())
    assert "class label score" in shown and "[e]" in shown


def test_a_few_numbers_that_no_graph_calls_scores_are_plain(tmp_path: Path) -> None:
    b = builder()
    z = b.op("TANH", [b.input("box", DType.FLOAT32, (1, 4))], name="y")
    save(b.output(z).model(), tmp_path / "m.tflite")
    np.save(tmp_path / "box.npy", np.zeros((1, 4), np.float32))
    shown = circlet("run", tmp_path / "m.tflite", "--input", tmp_path / "box.npy").stdout
    assert [line.strip() for line in shown.splitlines()[2:4]] == ["values", "0 0 0 0"]
    y = as_json("run", tmp_path / "m.tflite", "--input", tmp_path / "box.npy")["answers"][0]
    assert y["top"] == [] and y["first"] == [0, 0, 0, 0]


def test_labels_without_the_background_class_are_shifted(
    vector: Path, x: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("one\ntwo\nthree\nfour\nfive\n", encoding="utf-8")
    report = as_json("run", vector, "--input", x, "--labels", labels, "--top", 2)
    assert [c["label"] for c in report["answers"][0]["top"]] == ["two", "four"]


def test_labels_that_fit_no_output_are_told_of(vector: Path, x: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("one\ntwo\n", encoding="utf-8")
    (warning,) = as_json("run", vector, "--input", x, "--labels", labels)["warnings"]
    assert "2 labels do not fit 6 classes" in warning


def test_mean_and_std_shape_the_pixels(tmp_path: Path) -> None:
    PIL.new("L", (8, 8), 200).save(tmp_path / "p.png")
    sample = ("run", Sample("float").model_path, "--input", tmp_path / "p.png")
    scaled = as_json(*sample, "--mean", 0, "--std", 255)
    shifted = as_json(*sample, "--mean", 127.5, "--std", 127.5)
    np.save(tmp_path / "x.npy", np.full((1, 8, 8, 1), 200 / 255, np.float32))
    wanted = as_json(*sample[:3], tmp_path / "x.npy")
    assert scaled["answers"][0]["first"] == pytest.approx(wanted["answers"][0]["first"], abs=1e-5)
    assert shifted["answers"] != scaled["answers"]


def test_runs_are_repeated_and_timed(vector: Path, x: Path) -> None:
    report = as_json("run", vector, "--input", x, "--repeat", 5, "--warmup", 2)
    times = report["times"]
    assert times["repeats"] == 5
    assert times["fastest_ms"] <= times["median_ms"] <= times["slowest_ms"]
    assert "median of 5 runs" in circlet("run", vector, "--repeat", 5).stdout


def test_without_input_random_data_are_announced_and_repeatable(vector: Path) -> None:
    first, again, other = (as_json("run", vector, "--seed", seed) for seed in (1, 1, 2))
    assert "random data" in first["warnings"][0]
    assert first["answers"] == again["answers"] != other["answers"]
    assert "random data" in circlet("run", vector).stderr


def test_the_placement_is_printed_on_demand(model: Path) -> None:
    text = circlet("run", model, "--placement", "--backend", "reference").stdout
    assert "SUB" in text
    assert "difference" in text
    assert "reference" in text


def test_numbers_that_json_lacks_become_null(vector: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "nan.npy", np.full(6, np.inf, np.float32))
    report = as_json("run", vector, "--input", tmp_path / "nan.npy")
    assert report["answers"][0]["maximum"] is None


def test_an_artifact_runs_like_its_model(vector: Path, x: Path, tmp_path: Path) -> None:
    artifact = tmp_path / "relu.circlet"
    assert circlet("compile", vector, "-o", artifact).exit_code == 0
    from_model, from_artifact = (as_json("run", m, "--input", x) for m in (vector, artifact))
    assert from_model["answers"] == from_artifact["answers"]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


BAD_INPUTS = {
    "absent.npy": None,
    "empty.npy": b"",
    "text.npy": b"no numpy file",
    "bad.npz": b"PK\x03\x04 not really a zip",
    "short.raw": b"123",
    "text.png": b"no picture",
    "truncated.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x08\x00\x00\x00\x08\x08",
    "pickle.npy": b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"
    + b" " * 20
    + b"\n",
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_a_bad_input_file_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if (data := BAD_INPUTS[name]) is not None:
        path.write_bytes(data)
    error = as_json("run", "--input", path, code=1)["error"]
    assert error["code"] in ("E-FILE", "E-INPUT")
    assert name in error["where"]
    assert " at 0x" not in error["why"] and "<_io." not in error["why"]


@pytest.mark.parametrize(
    "arguments",
    [("{file}",), ("--input", "{file}.wav"), ("--input", "{file}.png"), ("--labels", "{file}")],
    ids=" ".join,
)
def test_files_that_are_not_there_and_files_of_something_else_have_their_own_fix(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    filled = [part.format(file=tmp_path / "file") for part in arguments]
    error = as_json("run", *filled, code=1)["error"]
    assert (error["why"], error["fix"]) == (
        "No such file or directory",
        "check the path and its permissions",
    )
    Path(filled[-1]).write_bytes(b"\xff neither a model nor any input nor a text")
    assert as_json("run", *filled, code=1)["error"]["fix"] != error["fix"]


def test_one_archive_holds_all_inputs(model: Path, tmp_path: Path) -> None:
    left, right = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
    both, one = tmp_path / "both.npz", tmp_path / "one.npz"
    np.savez(both, right=right, left=left)
    np.savez(one, left=left)
    as_json("run", model, "--input", both, "--output", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["sum"], left + right)
    error = as_json("run", model, "--input", one, code=1)["error"]
    assert "1 input file given" in error["what"] and ".npz" in error["fix"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("/nowhere/m.tflite",), "E-FILE", "/nowhere/m.tflite"),
        (("{model}", "--labels", "/nowhere/labels.txt"), "E-FILE", "labels"),
        (("{model}", "--labels", "{model}"), "E-FILE", "labels"),
        (("{model}", "--input", "{x}"), "E-INPUT", "1 input file given, 2 wanted"),
        (("{model}", "--input", "{x}", "--input", "{x}"), "E-INPUT", "left"),
        (("{model}", "--backend", "abacus"), "E-INPUT", "abacus"),
        (("{model}", "--target", "pdp11"), "E-TARGET", "pdp11"),
        (("{model}", "--output", "/nowhere/out.npz"), "E-FILE", "/nowhere/out.npz"),
        (("{x}",), "E-FORMAT", "x.npy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_has_a_code_and_the_exit_code_1(
    model: Path, x: Path, arguments: tuple[str, ...], code: str, text: str
) -> None:
    filled = [part.format(model=model, x=x) for part in arguments]
    error = as_json("run", *filled, code=1)["error"]
    assert error["code"] == code
    assert text in json.dumps(error)
    result = circlet("run", *filled)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"[{code}]")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--threads", "0"),
        ("run", "--top", "none"),
        ("run", "--repeat", "-1"),
        ("run", "--seed", "-1"),
        ("run", "--nothing"),
        ("run", "a", "b"),
        ("jump",),
        ("compile", "m.tflite"),
    ],
    ids=" ".join,
)
def test_wrong_usage_has_the_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert circlet(*arguments).exit_code == 2


@pytest.mark.smoke
def test_the_program_starts_from_a_shell() -> None:
    done = in_shell("run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["expected"] == Sample().expected


@pytest.mark.parametrize(("name", "value"), [("CIRCLET_LOG", "shout"), ("CIRCLET_THREADS", "many")])
def test_a_bad_setting_is_an_error_that_names_it(name: str, value: str) -> None:
    done = in_shell("run", **{name: value})
    assert done.returncode == 1
    assert done.stderr.startswith("[E-INPUT]")
    assert name in done.stderr
    assert "Traceback" not in done.stderr
