"""The fuzzer finds nothing today, and would find what it is for."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError
from tests import child
from tests.fuzz import case as cases
from tests.fuzz import collected, growth
from tests.fuzz.engine import CASES_PER_WORKER, Report, Request, fuzz
from tests.fuzz.guard_page import guarded, guarded_copy
from tests.fuzz.seeds import seeds
from tests.tally import TallyError

SEED = 20


@pytest.mark.parametrize("count", [150, pytest.param(700, marks=pytest.mark.slow)])
def test_no_hostile_file_ends_in_anything_but_an_answer_or_a_code(
    count: int, tmp_path: Path
) -> None:
    report = fuzz(Request(SEED, tmp_path, count=count))
    assert report.executions == count
    assert not report.findings, report.table()
    assert report.outcomes["read", "ok"] > count // 7
    assert report.outcomes["reference", "ok"] > count // 35


@pytest.mark.slow
def test_generated_code_survives_a_minute_of_hostile_files(tmp_path: Path) -> None:
    report = fuzz(Request(SEED + 1, tmp_path, seconds=60, native=0.4))
    assert not report.findings, report.table()
    assert report.outcomes["native", "ok"] > 10


def test_reports_of_several_runs_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[int, int | None]] = []

    def one_of_each(part: Request) -> Report:
        parts.append((part.start, part.count))
        found = {f"defect {len(parts) // 2}": tmp_path / f"finding-{part.start}"}
        times = Counter(found.keys())
        return Report(part.count or 0, Counter({("read", "ok"): 1}), Counter(), found, times, 1.0)

    monkeypatch.setattr(collected, "fuzz", one_of_each)
    request, tally = Request(SEED, tmp_path, start=70, count=6), tmp_path / "tally.json"
    first = collected.collect(request, 1, tally)
    assert collected.collect(request, 1, tally).table() == first.table()
    larger = replace(request, count=CASES_PER_WORKER + 9)
    assert collected.collect(replace(larger, seconds=0), 1, tally).executions == 6
    whole = collected.collect(larger, 1, tally)
    assert parts == [(70, 6), (76, CASES_PER_WORKER), (76 + CASES_PER_WORKER, 3)]
    assert (whole.executions, whole.outcomes["read", "ok"]) == (CASES_PER_WORKER + 9, 3)
    assert whole.times == {"defect 0": 1, "defect 1": 2}
    assert whole.findings["defect 1"].name == "finding-76"
    with pytest.raises(TallyError, match="name another file"):
        collected.collect(replace(request, seed=SEED + 1), 1, tally)
    tally.write_text("{}")
    with pytest.raises(TallyError, match="holds no tally"):
        collected.collect(request, 1, tally)


def test_a_number_always_makes_the_same_case() -> None:
    known = seeds()
    for number in range(20):
        assert cases.make_case(3, number, known) == cases.make_case(3, number, known)


def test_every_maker_takes_part() -> None:
    known = seeds()
    makers = {cases.make_case(0, number, known).maker for number in range(200)}
    assert makers == {*cases.SHARES}


def test_one_maker_alone_can_be_asked_for() -> None:
    known = seeds()
    for maker in growth.MAKERS:
        assert {cases.make_case(1, n, known, maker).maker for n in range(4)} == {maker}


def raise_index_error(*_: object) -> None:
    raise IndexError


def test_an_error_that_is_not_ours_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "violations", raise_index_error)
    case = cases.Case(0, "sum", seeds()[0].read(), False)
    ((stage, outcome),) = cases.outcomes(case)
    assert stage == "read"
    assert isinstance(outcome, cases.Finding)
    assert outcome.signature.startswith("IndexError")


def test_memory_that_ran_out_behind_a_code_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*_: object) -> None:
        try:
            raise MemoryError
        except MemoryError as error:
            raise CircletError("there is not enough memory") from error

    monkeypatch.setattr(cases, "violations", hungry)
    case = cases.Case(0, "sum", seeds()[0].read(), False)
    ((_, outcome),) = cases.outcomes(case)
    assert isinstance(outcome, cases.Finding)
    assert outcome.signature.startswith("memory")


def test_a_process_that_hangs_or_dies_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'tests.fuzz.worker' in sys.orig_argv:\n"
        "    from tests.fuzz import case\n"
        "    case.outcomes = lambda *_: os.abort()\n"
    )
    monkeypatch.setenv("PYTHONPATH", child.environment(tmp_path, child.ROOT)["PYTHONPATH"])
    report = fuzz(Request(SEED, tmp_path / "found", count=1))
    ((signature, path),) = report.findings.items()
    assert "died with -6" in signature
    assert path.exists()


def test_a_byte_behind_a_guarded_array_kills() -> None:
    program = (
        "from tests.fuzz.guard_page import guarded; import ctypes;"
        "array = guarded((5,), 'int8'); ctypes.memset(array.ctypes.data, 0, 5); print('inside');"
        "ctypes.memset(array.ctypes.data, 0, 6)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout == b"inside\n"
    assert done.returncode < 0


def test_guarded_arrays_hold_what_they_are_given() -> None:
    assert guarded((2, 0), "float32").shape == (2, 0)
    np.testing.assert_array_equal(guarded_copy(np.arange(6).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]])
