"""Users of LiteRT, which does not compile, are told where Circlet does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.frontends.interpreters import chain, circlet

pytestmark = pytest.mark.usefixtures("units_for_any_cache")

LOGGER = "circlet.frontends.first_compile"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network in a file, and a cache that has nothing yet."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "chain.tflite"
    path.write_bytes(chain())
    return path


def test_the_first_allocation_says_that_it_compiles(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interpreter = circlet(model_path=model)
    assert not caplog.records
    with caplog.at_level(logging.INFO, LOGGER):
        interpreter.allocate_tensors()
    told, done = (record.getMessage() for record in caplog.records if record.name == LOGGER)
    assert told.startswith(f"compiling {model} for this CPU")
    assert done.startswith("compiled in ")
    assert caplog.records[0].levelno == logging.WARNING


def test_later_ones_find_it_in_the_cache_and_say_nothing(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    circlet(model_path=model).allocate_tensors()
    caplog.clear()
    for interpreter in (circlet(model_path=model), circlet(model_path=model)):
        interpreter.allocate_tensors()
        interpreter.resize_tensor_input(0, [2, 4])
        interpreter.allocate_tensors()
    assert [record for record in caplog.records if record.name == LOGGER] == []


def test_bytes_are_told_of_without_a_name(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    circlet(model_content=model.read_bytes()).allocate_tensors()
    assert "compiling a network for this CPU" in caplog.text
