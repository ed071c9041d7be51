"""Optimisation levels side by side: what counts as slower, as another answer, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import levels_result
from bench.levels_result import Levels, Row, newest
from circlet.comparison.outputs import Difference
from circlet.comparison.ratios import Interval

SLOWER = Row(
    "slower.tflite",
    1,
    {"circlet_o0": 90.0, "circlet": 100.0, "litert": 50.0, "litert O2": 50.0},
    {"O2": Interval(0.9, 0.89, 0.95), "file": Interval(1.0, 0.9, 1.1)},
    {"O2": Difference(5e-5), "file": Difference(0.0, 0)},
)
WRONG = Row(
    "wrong.onnx",
    2,
    {"circlet_o0": 10.0, "circlet_o1": 10.9, "circlet": 9.0},
    {"O1": Interval(0.92, 0.91, 0.93), "O2": Interval(1.1, 1.0, 1.2)},
    {"O1": Difference(2e-6), "O2": Difference(0.01, 1)},
    {"onnxruntime O2": "it cannot be written"},
)
NOISY = Row(
    "noisy.tflite",
    1,
    {"circlet_o0": 90.0, "circlet": 100.0},
    {"O2": Interval(0.9, 0.8, 0.99)},
    {"O2": Difference(float("inf"), None, "shape (2,) instead of (3,)")},
)


def test_slower_is_what_is_so_with_its_whole_interval_and_by_more_than_calls_take() -> None:
    assert SLOWER.slower == ["O2"]
    assert WRONG.slower == [] and NOISY.slower == []


def test_answers_are_held_to_what_a_level_promises() -> None:
    assert SLOWER.wrong == []
    assert WRONG.wrong == ["O1", "O2"] and NOISY.wrong == ["O2"]


def test_runs_are_kept_and_make_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels_result, "FOLDER", tmp_path)
    assert newest() is None
    run = Levels("2026-01-02T03:04:05Z", {"cpu": "x"}, 7, [SLOWER, WRONG, NOISY])
    run.write()
    assert newest() == run
    page = run.page()
    assert "## 1 thread\n" in page and "## 2 threads\n" in page
    assert "slower: slower.tflite (1T); other answers: wrong.onnx (2T), noisy.tflite (1T)." in page
    assert "| slower.tflite | 90.0 | 100.0 | 0.90 slower | 0.89 to 0.95 | 5e-05 |" in page
    assert "| 0.01, 1 step |" in page and "shape (2,) instead of (3,)" in page
