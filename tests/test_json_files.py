"""JSON files of users: what is read, and what errors say of files that hold something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from circlet import json_files
from circlet.errors import FileError, FormatError, InputError
from circlet.json_files import check_format, read_json


def _first(found: Any) -> int:
    check_format(found, "a-format", 2)
    return int(found["numbers"][0])


def test_a_file_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": "a-format", "version": 2, "numbers": [7]}')
    assert read_json(path, "a number", _first) == 7


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "it is no JSON: "),
        (b"\xff", "it is no JSON: "),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[1]", "it is not of the format a-format, version 2"),
        (b'{"format": "a-format", "version": 1}', "it is not of the format a-format, version 2"),
        (b'{"format": "a-format", "version": 2}', "it has no 'numbers'"),
        (b'{"format": "a-format", "version": 2, "numbers": 3}', "something in it is of another"),
        (b'{"format": "a-format", "version": 2, "numbers": []}', "something in it is of another"),
    ],
)
def test_what_holds_something_else_is_told(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match="does not hold a number") as caught:
        read_json(path, "a number", _first, "write a number")
    assert caught.value.why.startswith(why)
    assert (caught.value.where, caught.value.fix) == (str(path), "write a number")


def test_a_format_may_have_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    with pytest.raises(FormatError, match="does not hold a number"):
        read_json(path, "a number", _first, error=FormatError)


def test_a_large_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "_MOST_BYTES", 10)
    path = tmp_path / "a.json"
    path.write_text('{"format": "a-format"}')
    with pytest.raises(InputError, match="does not hold a number") as caught:
        read_json(path, "a number", _first)
    assert caught.value.why == "it has more than 10 bytes"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        read_json(tmp_path / "none.json", "a number", _first)
