"""What others do to files and folders that are in use: nothing is believed, nothing is lost."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.artifact.cache import TAG, Cache
from circlet.artifact.digest import digest
from circlet.artifact.file import open_artifact
from circlet.compiler.compile import compile_model
from circlet.config import Config
from circlet.errors import ArtifactError, CacheError, FileError, InputError
from circlet.options import Options
from circlet.stored import StoredFile
from tests.runtime import networks

pytestmark = pytest.mark.usefixtures("units_for_any_cache")

X = np.linspace(-1, 1, 6, dtype=np.float32)
USERS = ("production_model.circlet", "draft.tmp", "checksums.digest", ".old.tmp", "a.lock")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder, not yet made."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute passes: files are old enough to be remembered."""
    now = time.time() + 60
    monkeypatch.setattr("time.time", lambda: now)


def small() -> bytes:
    """A network with weights."""
    return networks.convolutions(8, 8, 1)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.circlet"))


def test_the_cache_deletes_only_what_it_wrote(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name in USERS:
        (folder / name).write_text("mine")
        os.utime(folder / name, (1000, 1000))
    cache = Cache(Config(cache_dir=folder, cache_bytes=1))
    for size in (6, 7):
        cache.load("0" * 63 + str(size), lambda: compile_model(networks.relu(), Options()))
    cache.prune()
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == sorted(USERS)
    assert {(folder / name).read_text() for name in USERS} == {"mine"}


def test_files_of_users_in_a_marked_folder_stay(folder: Path) -> None:
    cache = Cache(Config(cache_dir=folder, cache_bytes=1))
    for name in USERS:
        (folder / name).write_text("mine")
        os.utime(folder / name, (1000, 1000))
    cache.prune()
    assert {path.name for path in folder.iterdir()} == {TAG, *USERS}


def test_entries_that_were_exchanged_are_noticed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = {6: networks.relu(6), 7: networks.relu(7)}
    for model in models.values():
        Session(model)
    first, second = entries(folder)
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)
    with caplog.at_level(logging.WARNING, "circlet.cache"):
        for size, model in models.items():
            assert Session(model).inputs[0].shape == (size,)
    assert "of another model" in caplog.text


def test_a_model_that_is_exchanged_while_it_is_opened_is_compiled_as_it_was_hashed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "m.tflite", tmp_path / "other.tflite"
    path.write_bytes(networks.relu(6))
    other.write_bytes(networks.relu(7))
    known = Cache.file_digest

    def then_exchanged(cache: Cache, file: StoredFile) -> str:
        found = known(cache, file)
        if other.exists():
            other.replace(path)
        return found

    monkeypatch.setattr(Cache, "file_digest", then_exchanged)
    assert Session(path).inputs[0].shape == (6,)
    assert Session(path).inputs[0].shape == (7,)
    assert Session(networks.relu(6)).inputs[0].shape == (6,)


@pytest.mark.usefixtures("later")
def test_a_model_that_is_written_while_it_is_opened_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(networks.relu(6))
    Session(path, shapes={})
    file = StoredFile(path)
    path.write_bytes(networks.relu(7))
    with pytest.raises(FileError, match="changed while it was read"):
        file.data()


def _flipped(path: Path, place: int) -> None:
    """Damage one byte in place."""
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def _weights_of(path: Path) -> int:
    """A place inside the weights."""
    artifact = open_artifact(path)
    wanted = bytes(artifact.select().partitions[0].constants)
    return path.read_bytes().index(wanted) + len(wanted) // 2


@pytest.mark.usefixtures("later")
def test_damaged_weights_in_the_cache_are_compiled_again(folder: Path) -> None:
    source, x = small(), networks.convolutions_input(8, 8)
    (wanted,) = Session(source).run([x]).values()
    for _ in range(2):
        np.testing.assert_array_equal(list(Session(source).run([x]).values()), [wanted])
        (path,) = entries(folder)
        _flipped(path, _weights_of(path))
        again = Session(source)
        assert "compile" in again.opened.seconds
        np.testing.assert_array_equal(list(again.run([x]).values()), [wanted])


@pytest.mark.parametrize("verify", ["once", "always"])
@pytest.mark.usefixtures("later")
def test_damaged_weights_of_an_artifact_are_refused(
    verify: str, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.circlet"
    path.write_bytes(compile_model(small(), Options()))
    load_artifact(path, verify=verify)
    load_artifact(path, verify=verify)
    _flipped(path, _weights_of(path))
    with pytest.raises(ArtifactError, match="hash"):
        load_artifact(path, verify=verify)


@pytest.mark.usefixtures("later")
def test_weights_are_hashed_once_or_always(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []

    def counted(data: bytes | memoryview) -> bytes:
        hashed.append(len(data))
        return digest(data)

    path = tmp_path / "m.circlet"
    path.write_bytes(compile_model(small(), Options()))
    monkeypatch.setattr("circlet.artifact.file.digest", counted)
    counts = []
    for verify in ("once", "once", "always", "once"):
        hashed.clear()
        load_artifact(path, verify=verify)
        counts.append(len(hashed))
    assert counts == [counts[0], counts[0] - 1, counts[0], counts[0] - 1]
    with pytest.raises(InputError, match="once or always"):
        load_artifact(path, verify="never")


def test_a_young_file_is_hashed_each_time(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(networks.relu(6))
    assert Session(path).inputs[0].shape == (6,)
    facts = path.stat()
    path.write_bytes(networks.relu(7))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert Session(path).inputs[0].shape == (7,)


def test_a_way_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    config = Config(cache_dir=shared / "mine" / "cache")
    with pytest.raises(CacheError, match="others may write to "):
        Cache(config)
    shared.chmod(0o1777)
    assert Cache(config).folder is not None


def test_a_way_through_somebody_elses_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give folders to other users")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    (theirs / "mine").mkdir(mode=0o700)
    with pytest.raises(CacheError, match="belongs to user 12345"):
        Cache(Config(cache_dir=theirs / "mine"))


def test_a_folder_that_is_exchanged_after_the_check_is_not_read(
    folder: Path, tmp_path: Path
) -> None:
    cache = Cache(Config(cache_dir=folder))
    key = "1" * 64
    cache.load(key, lambda: compile_model(networks.relu(6), Options()))
    folder.rename(tmp_path / "true")
    folder.mkdir()
    (folder / f"{key}.circlet").write_bytes(b"code of somebody else")
    assert cache.folder is not None
    with pytest.raises(FileError):
        cache.folder.open("absent", "a file")
    assert cache.folder.open(f"{key}.circlet", "a file").size > 100


def test_a_squatted_fallback_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("CIRCLET_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    squatted = tmp_path / f"circlet-{os.getuid()}"
    squatted.mkdir()
    squatted.chmod(0o777)
    with caplog.at_level(logging.WARNING, "circlet.cache"):
        np.testing.assert_array_equal(Session(networks.relu()).run([X])["y"], np.maximum(X, 0))
    assert "not kept" in caplog.text
    assert list(squatted.iterdir()) == []
