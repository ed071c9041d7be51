"""`circlet verify`: all faults at once, and the exit code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.runtime import networks


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.tflite"
    path.write_bytes(networks.sum_and_difference())
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Two operators whose outputs are declared otherwise than they compute."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    first = b.op("RELU", [x], name="first", shape=(2, 4))
    second = b.op("ADD", [x, b.constant("c", np.ones(3, np.float32))], name="second", shape=(5,))
    path = tmp_path / "bad.tflite"
    path.write_bytes(dumps(b.output(first, second).model(), "tflite"))
    return path


@pytest.mark.smoke
def test_a_sound_network_passes(good: Path) -> None:
    assert as_json("verify", good)["ok"] is True
    result = circlet("verify", good)
    assert result.exit_code == 0
    assert result.stdout == f"{good}: ok (2 operators checked)\n"


@pytest.mark.smoke
def test_every_violation_is_listed(bad: Path) -> None:
    report = as_json("verify", bad, code=1)
    assert report["ok"] is False
    assert [row["rule"] for row in report["violations"]] == ["inferred-types", "inferred-types"]
    assert ["first" in row["op"] for row in report["violations"]] == [True, False]
    text = circlet("verify", bad)
    assert text.exit_code == 1
    assert text.stdout.count("why: what the file declares does not follow") == 2


def test_every_unsupported_operator_is_listed() -> None:
    path = corpora.corpus("models/custom_op_FillFrom.tflite")
    report = as_json("verify", path, code=1)
    assert [row["kind"] for row in report["unsupported"]] == ["CUSTOM:FillFrom"]
    assert "cannot be run: t_1 (CUSTOM:FillFrom" in circlet("verify", path).stdout


def test_a_file_that_is_no_network_ends_in_a_code(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    path.write_bytes(b"no")
    assert as_json("verify", path, code=1)["error"]["code"] == "E-FORMAT"
