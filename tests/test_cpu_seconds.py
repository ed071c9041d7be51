"""The plugin that adds up CPU seconds, and the environment of programs that tests start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import child
from tests.cpu_seconds import folder_of, spent


@pytest.mark.parametrize(
    ("test", "folder"),
    [
        ("tests/test_layers.py::test_table_is_applied[0]", "tests"),
        ("tests/cli/test_run.py::test_it", "tests/cli"),
        ("tests/backends/cpu/tuning/test_search.py::test_it", "tests/backends/cpu"),
    ],
)
def test_a_test_counts_in_its_folder(test: str, folder: str) -> None:
    assert folder_of(test) == folder


def test_seconds_of_children_count() -> None:
    before = spent()
    assert os.system("i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done") == 0
    assert spent() > before


def test_programs_import_from_the_checkout_and_find_what_is_installed_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/site")
    assert child.environment(A="b")["PYTHONPATH"] == f"{child.ROOT}:/site"
    assert child.environment(Path("/own"), A="b")["PYTHONPATH"] == "/own:/site"
    assert child.environment(A="b")["A"] == "b"
    monkeypatch.delenv("PYTHONPATH")
    assert child.environment()["PYTHONPATH"] == str(child.ROOT)
