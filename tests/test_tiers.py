"""The tiers of the tests: what is quick, what is slow, and what shows that the system stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpora

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "circlet"
PARTS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
ROOMS = [part for part in PARTS if (TESTS / part).is_dir()]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_smoke_test(room: str) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (TESTS / room).rglob("test_*.py"))
    assert any("pytest.mark.smoke" in source for source in sources)


def test_files_that_represent_no_other_are_slow() -> None:
    files = ["models/kws_dscnn_int8.tflite", "models/yamnet_audio_classifier.tflite"]
    quick, slow = corpora.each("path", files, corpora.REPRESENTATIVE).args[1]
    assert [mark.name for mark in quick.marks] == []
    assert [mark.name for mark in slow.marks] == ["slow"]


def test_without_a_corpus_one_test_skips_and_names_the_folder() -> None:
    (absent,) = corpora.each("path", []).args[1]
    (skip,) = absent.marks
    assert skip.name == "skip"
    assert str(corpora.ROOT) in skip.kwargs["reason"]


def test_representative_models_are_in_the_corpus() -> None:
    corpora.corpus("models")
    assert set(corpora.REPRESENTATIVE) <= set(corpora.models())
