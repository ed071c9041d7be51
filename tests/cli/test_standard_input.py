"""`-` is standard input where a file is read; addresses of the web are said to be no files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from circlet import Session
from circlet.cli import group
from circlet.errors import FileError
from circlet.sample import Sample
from tests.cli.call import as_json, circlet

MODEL = Sample().model_path


def piped(data: bytes, *arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments], input=data)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("command", ["run", "inspect", "verify", "dump"])
def test_a_model_may_come_from_standard_input(command: str) -> None:
    result = piped(MODEL.read_bytes(), command, "-")
    assert result.exit_code == 0, result.stderr
    assert "circlet-work" not in result.stdout + result.stderr
    if command in ("run", "inspect", "verify"):
        assert "standard input" in result.stdout


def test_what_is_written_of_standard_input_is_that_of_the_file(tmp_path: Path) -> None:
    made = tmp_path / "m.circle"
    assert piped(MODEL.read_bytes(), "convert", "-", made).exit_code == 0
    assert piped(MODEL.read_bytes(), "compile", "-", "-o", tmp_path / "m.circlet").exit_code == 0
    assert as_json("run", tmp_path / "m.circlet")["ops"] == as_json("run", MODEL)["ops"]


def test_an_input_may_come_from_standard_input() -> None:
    array = Sample().image()
    result = piped(npy(array), "run", MODEL, "--input", "-", "--json")
    report = json.loads(result.stdout)
    assert report["inputs"] == ["standard input"]
    assert report["answers"][0]["top"][0]["index"] == int(Sample().expected)


@pytest.mark.parametrize(
    ("data", "arguments", "code", "said"),
    [
        (b"", ("run", "-"), 1, "nothing to read"),
        (b"no network", ("run", "-"), 1, "where: standard input"),
        (b"x", ("run", "-", "--input", "-"), 2, "one file only"),
        (b"x", ("run", MODEL, "--input", "-", "--input", "-"), 2, "one file only"),
        (b"x", ("compile", "-o", "-"), 2, "'-' is no file here"),
        (b"x", ("run", "--output", "-"), 2, "'-' is no file here"),
    ],
    ids=["empty", "no-network", "model-and-input", "two-inputs", "artifact", "outputs"],
)
def test_what_cannot_be_read_from_there_is_said(
    data: bytes, arguments: tuple[object, ...], code: int, said: str
) -> None:
    result = piped(data, *arguments)
    assert result.exit_code == code and said in result.stderr


@pytest.mark.parametrize("address", ["https://x.org/a.tflite", "s3://bucket/a.tflite"])
def test_an_address_is_to_be_downloaded_first(address: str) -> None:
    for arguments in (("run", address), ("inspect", address), ("run", "--input", f"{address}.npy")):
        error = as_json(*arguments, code=1)["error"]
        assert error["code"] == "E-FILE" and "download it first" in error["fix"]
        assert error["where"].startswith(address)
    with pytest.raises(FileError, match="download it first"):
        Session(address)


def test_a_file_may_have_the_name_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-").write_bytes(MODEL.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert circlet("verify", "./-").exit_code == 0
