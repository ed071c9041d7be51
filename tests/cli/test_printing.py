"""What people read: nothing folded for programs, names as they are, failures to print."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops.build import builder
from tests.cli.call import circlet, in_shell
from tests.runtime import networks

LONG = "a/very/long/scope/" * 12 + "[layer]"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One operator with a name that is longer than any terminal is wide, and looks like markup."""
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (6,))], name=LONG))
    path = tmp_path / "long.tflite"
    path.write_bytes(networks.tflite(b))
    return path


@pytest.mark.parametrize(
    "arguments", [("run", "--placement"), ("inspect", "--operators", "--tensors")], ids=" ".join
)
def test_names_are_whole_where_a_program_reads_them(
    model: Path, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    lines = circlet(command, model, *options).stdout.splitlines()
    assert any(line.strip().endswith(LONG) or LONG in line.split() for line in lines)


def test_a_column_without_content_is_left_out(model: Path) -> None:
    assert "refused by" not in circlet("run", model, "--placement").stdout
    assert "refused by" not in circlet("inspect", model).stdout


def test_one_thing_is_not_many(model: Path) -> None:
    text = circlet("inspect", model).stdout
    assert "1 graph, 1 operator, " in text
    assert "partition 0 (1 fused operator):" in text


def test_the_largest_tensors_at_the_peak_have_a_line_each(tmp_path: Path) -> None:
    (tmp_path / "c.tflite").write_bytes(networks.convolutions())
    text = circlet("inspect", tmp_path / "c.tflite").stdout
    _, _, peak = text.partition("peak at ")
    sizes = [int(line.split()[0].replace(",", "")) for line in peak.splitlines()[1:3]]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] > 0


def test_inputs_and_outputs_are_those_of_the_first_graph() -> None:
    from tests.corpora import corpus

    path = corpus("models/while_dynamic.tflite")
    assert "arg0" not in circlet("inspect", path).stdout
    assert " arg0" in circlet("inspect", path, "--tensors").stdout


def test_a_full_disk_under_standard_output_ends_in_a_code(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is not there")
    done = in_shell("run", into="/dev/full")
    assert done.returncode == 1
    assert "[E-FILE]" in done.stderr
    assert "standard output" in done.stderr and "Traceback" not in done.stderr


def test_labels_name_the_classes_of_an_image_of_scores(tmp_path: Path) -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (1, 2, 2, 3))], name="y"))
    (tmp_path / "m.tflite").write_bytes(networks.tflite(b))
    scores = np.eye(3, dtype=np.float32)[[0, 2, 2, 2]].reshape(1, 2, 2, 3)
    np.save(tmp_path / "x.npy", scores)
    (tmp_path / "labels.txt").write_text("sky\nsea\nland\n", encoding="utf-8")
    shown = circlet(
        *("run", tmp_path / "m.tflite", "--input", tmp_path / "x.npy"),
        *("--labels", tmp_path / "labels.txt"),
    ).stdout.split()
    assert shown[shown.index("land") + 1] == "75.0%"
    assert "sea" not in shown


@pytest.mark.parametrize(
    "arguments", [("run", "--placement"), ("inspect", "--operators"), ("memory", "--no-process")]
)
def test_lines_for_programs_end_without_blanks(model: Path, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    text = circlet(command, model, *options).stdout
    assert text and [line for line in text.splitlines() if line != line.rstrip()] == []


def test_one_number_is_shown_once(tmp_path: Path) -> None:
    b = builder()
    b.output(b.op("ABS", [b.input("x", DType.FLOAT32, (1, 1))], name="y"))
    path, given = tmp_path / "one.tflite", tmp_path / "x.npy"
    path.write_bytes(networks.tflite(b))
    np.save(given, np.array([[-0.25]], np.float32))
    text = circlet("run", path, "--backend", "reference", "--input", given).stdout
    assert text.count("0.25") == 1 and "value" in text
