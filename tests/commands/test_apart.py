"""Commands that ask backends outlive those that end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet.commands.doctor import diagnose
from circlet.commands.place import PlaceRequest, place_network
from circlet.errors import InputError, UnsupportedOpsError
from circlet.options import Options
from tests.crashing import NAME, install
from tests.runtime import networks


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(networks.relu())
    return path


def test_a_backend_that_aborts_when_it_is_asked_takes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, aborts="supports")
    found = place_network(PlaceRequest(model, Options(backends=(NAME, "reference"))))
    (row,) = found.operators
    assert row.backend == "reference"
    ((name, why),) = row.refused
    assert name == NAME and "was ended by SIGABRT" in why


def test_errors_of_placing_are_those_of_planning(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="a rule places no operator") as caught:
        place_network(PlaceRequest(model, Options(backend_of=(("NOTHING", "cpu"),))))
    assert caught.value.where == "NOTHING"
    with pytest.raises(UnsupportedOpsError, match="another kind"):
        place_network(PlaceRequest(model, Options(backends=(NAME,))))


def test_a_backend_that_aborts_is_a_finding_and_others_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, aborts="compiler")
    aborting, other = diagnose([NAME, "reference"])[2:]
    assert not aborting.ok and "E-BACKEND" in aborting.text and "SIGABRT" in aborting.text
    assert other.ok and "exact" in other.text
