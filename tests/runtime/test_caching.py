from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CacheError
from tests.runtime import networks

pytestmark = pytest.mark.usefixtures("units_for_any_cache")

X = np.linspace(-1, 1, 6, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; the fallback is elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def artifacts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.circlet"))


def was_compiled(session: Session) -> bool:
    np.testing.assert_array_equal(session.run([X])["y"], np.maximum(X, 0))
    return "compile" in session.opened.seconds


@pytest.mark.smoke
def test_the_second_opening_finds_the_first_ones_work(folder: Path) -> None:
    assert was_compiled(Session(networks.relu()))
    assert not was_compiled(Session(networks.relu()))
    assert len(artifacts(folder)) == 1


def test_a_path_and_its_bytes_are_cached_by_content(folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.tflite", tmp_path / "b.tflite"]
    for path in paths:
        path.write_bytes(networks.relu())
    assert was_compiled(Session(paths[0]))
    assert not was_compiled(Session(paths[1]))


def test_a_file_that_changed_is_compiled_again(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(networks.relu())
    assert was_compiled(Session(path))
    path.write_bytes(networks.sum_and_difference())
    assert [v.name for v in Session(path).inputs] == ["left", "right"]


@pytest.mark.parametrize(
    "options", [{"backends": ("reference",)}, {"target": "generic"}, {"strict": True}], ids=str
)
def test_other_options_are_another_entry(folder: Path, options: dict[str, object]) -> None:
    assert was_compiled(Session(networks.relu()))
    assert was_compiled(Session(networks.relu(), **options))  # type: ignore[arg-type]


def test_the_number_of_threads_is_not_part_of_the_code(folder: Path) -> None:
    assert was_compiled(Session(networks.relu(), threads=1))
    assert not was_compiled(Session(networks.relu(), threads=2))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_entry_is_built_again(
    folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    Session(networks.relu())
    (path,) = artifacts(folder)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    cut = {"truncated": len(data) // 2, "flipped": len(data), "emptied": 0}[damage]
    path.unlink()
    path.write_bytes(data[:cut])
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert was_compiled(Session(networks.relu()))
    assert "built again" in caplog.text
    assert not was_compiled(Session(networks.relu()))


def test_a_cache_that_is_switched_off_stays_empty(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert was_compiled(Session(networks.relu(), cache=False))
    monkeypatch.setenv("CIRCLET_CACHE_BYTES", "0")
    assert was_compiled(Session(networks.relu()))
    assert was_compiled(Session(networks.relu()))
    assert artifacts(folder) == []


def test_a_home_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert was_compiled(Session(networks.relu()))
    assert not was_compiled(Session(networks.relu()))
    assert len(artifacts(tmp_path / f"circlet-{os.getuid()}")) == 1


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="others may write"):
        Session(networks.relu())
