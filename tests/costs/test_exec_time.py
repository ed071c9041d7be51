"""ONE's exec_time.json: its form, its rules of interpolation and of updating."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from circlet.costs.exec_time import UNSUPPORTED, ExecTime, Record
from circlet.errors import FileError, InputError

ONES_TEXT = (
    '{"b1": {"op1": {"0": [[100, 888]], "1": [[100, 100], [200, 200]]}}, '
    '"b2": {"b1": {"0": [[4096, 12]]}}}'
)


def times_of(*pairs: tuple[int, int]) -> ExecTime:
    times = ExecTime()
    for size, us in pairs:
        times.update(Record("b1", "op1", True, size, us))
    return times


def at(times: ExecTime, size: int) -> int | None:
    return times.lookup("b1", "op1", True, size)


def test_ones_own_example_goes_out_and_comes_back(tmp_path: Path) -> None:
    times = times_of((100, 100), (200, 200))
    times.update(Record("b1", "op1", False, 100, 888))
    times.update(Record("b2", "b1", False, 4096, 12))
    path = tmp_path / "exec_time.json"
    times.write(path)
    assert path.read_text() == ONES_TEXT
    read = ExecTime.read(path)
    assert [at(read, size) for size in (100, 150, 200)] == [100, 150, 200]
    assert read.lookup("b1", "op1", False, 100) == 888
    assert read.lookup("b2", "b1", False, 4096) == 12
    assert read.text() == ONES_TEXT


@pytest.mark.parametrize(
    ("pairs", "size", "us"),
    [
        ([(100, 7)], 5000, 7),  # a single record serves for all
        ([(100, 10), (200, 20), (400, 80)], 300, 50),
        ([(100, 10), (200, 20), (400, 80)], 500, 110),  # along the last two
        ([(100, 10), (200, 20), (400, 80)], 50, 5),  # along the first two
        ([(100, 10), (200, 40)], 20, 1),  # never less than 1
        ([(100, 100), (200, 40)], 300, 100),  # below zero beyond the end: the one before the last
        ([(100, 100), (200, 40)], 260, 4),
        ([(100, 10), (103, 11)], 101, 10),  # whole numbers, towards zero
        ([(100, 11), (103, 10)], 101, 11),
    ],
)
def test_times_between_and_beyond(pairs: list[tuple[int, int]], size: int, us: int) -> None:
    assert at(times_of(*pairs), size) == us


def test_what_is_not_there_is_unknown() -> None:
    times = times_of((100, 10))
    assert times.lookup("b2", "op1", True, 100) is None
    assert times.lookup("b1", "op2", True, 100) is None
    assert times.lookup("b1", "op1", False, 100) is None


def test_an_update_is_the_mean_of_old_and_new() -> None:
    assert at(times_of((100, 10), (100, 21)), 100) == 15


def test_what_is_not_taken_at_one_size_is_taken_at_none() -> None:
    times = times_of((100, 10), (200, 20), (300, UNSUPPORTED))
    assert [record[3:] for record in times.records()] == [(300, UNSUPPORTED)]
    times.update(Record("b1", "op1", True, 100, 10))
    assert at(times, 100) == UNSUPPORTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"b": 1}',
        '{"b": {"op": []}}',
        '{"b": {"op": {"2": [[1, 1]]}}}',
        '{"b": {"op": {"0": [[1]]}}}',
        '{"b": {"op": {"0": [[1, 1.5]]}}}',
        '{"b": {"op": {"0": [[-1, 1]]}}}',
        '{"b": {"op": {"0": [[1, 9223372036854775808]]}}}',
        '{"b": {"op": {"0": [[true, 1]]}}}',
        "[" * 100_000,
        '{"b": {"op": {"0": [[1, ' + "9" * 5000 + "]]}}}",
    ],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "exec_time.json"
    path.write_text(text)
    with pytest.raises(InputError, match="does not hold times of operators"):
        ExecTime.read(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        ExecTime.read(tmp_path / "none.json")


def test_the_text_is_json() -> None:
    assert json.loads(times_of((1, 2)).text()) == {"b1": {"op1": {"1": [[1, 2]]}}}
