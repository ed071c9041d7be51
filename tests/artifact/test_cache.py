from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from circlet.artifact import cache as cache_module
from circlet.artifact.cache import TAG, Cache, cache_key, generator_identity, usable_folder
from circlet.artifact.file import TargetCode
from circlet.artifact.writer import artifact_bytes
from circlet.config import Config
from circlet.errors import CacheError, CircletError
from circlet.stored import StoredFile
from circlet.target.targets import native_target

# Python 3.12 warns of what these tests prove to work.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

KEY = cache_key("model")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache"


def build(name: str = "made", size: int = 0, key: str = KEY) -> bytes:
    code = TargetCode(str(native_target()), (), {})
    return artifact_bytes({"key": key, "name": name, "filling": "x" * size}, [code])


def kept(folder: Path) -> list[str]:
    """What is in a cache besides its tag."""
    return sorted(path.name for path in folder.iterdir() if path.name != TAG)


def refuse() -> bytes:
    raise AssertionError("nothing should be built")


@pytest.mark.smoke
def test_what_is_kept_is_not_built_again(folder: Path) -> None:
    cache = Cache(Config(cache_dir=folder))
    assert not cache.load(KEY, build).hit
    again = Cache(Config(cache_dir=folder)).load(KEY, refuse)
    assert again.hit
    assert again.artifact.metadata["name"] == "made"


def test_folder_and_files_are_private(folder: Path) -> None:
    Cache(Config(cache_dir=folder)).load(KEY, build)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_keys_differ_by_each_part_and_by_where_parts_end() -> None:
    keys = {cache_key("ab", b"c"), cache_key("a", b"bc"), cache_key("abc"), cache_key("ab", "c")}
    assert len(keys) == 3
    assert all(len(key) == 64 for key in keys)


@pytest.mark.parametrize(
    ("place", "edited", "changes"),
    [
        ("checkout/circlet", "kernel.h", True),
        ("site-packages/circlet", "__init__.py", True),
        ("site-packages/circlet", "kernel.h", False),
    ],
)
def test_keys_change_with_an_edit_or_an_installation(
    place: str, edited: str, changes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / place
    package.mkdir(parents=True)
    for name in ("kernel.h", "__init__.py"):
        (package / name).write_text("1")
    monkeypatch.setattr(cache_module, "_PACKAGE", str(package))
    generator_identity.cache_clear()
    before = generator_identity()
    (package / edited).unlink()
    (package / edited).write_text("22")
    generator_identity.cache_clear()
    after = generator_identity()
    generator_identity.cache_clear()
    assert (before != after) == changes


@pytest.mark.smoke
@pytest.mark.parametrize("damage", ["short", "flip", "mode", "link"])
def test_a_damaged_entry_is_built_again(
    damage: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(Config(cache_dir=folder))
    cache.load(KEY, build)
    path = next(folder.glob("*.circlet"))
    if damage == "short":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "flip":
        path.write_bytes(path.read_bytes().replace(b"made", b"evil"))
    elif damage == "mode":
        path.chmod(0o622)
    else:
        path.rename(folder / "elsewhere")
        path.symlink_to(folder / "elsewhere")
    with caplog.at_level(logging.WARNING, "circlet.cache"):
        again = cache.load(KEY, lambda: build("rebuilt"))
    assert (again.hit, again.artifact.metadata["name"]) == (False, "rebuilt")
    assert "built again" in caplog.text


def test_a_folder_that_others_may_write_to_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="chmod 700"):
        Cache(Config(cache_dir=folder))


def test_a_folder_of_someone_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True, mode=0o700)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(CacheError, match="belongs to user"):
        Cache(Config(cache_dir=folder))


def test_a_link_is_no_cache_folder(folder: Path, tmp_path: Path) -> None:
    folder.parent.mkdir()
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="not a folder"):
        Cache(Config(cache_dir=folder))


def test_without_a_writable_home_the_temporary_folder_serves(
    tmp_path: Path, temporary: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    chosen = usable_folder(Config(cache_dir=blocked / "cache"))
    assert chosen is not None
    assert os.path.dirname(chosen.path) == str(temporary)
    assert stat.S_IMODE(os.stat(chosen.path).st_mode) == 0o700


def test_without_any_folder_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(blocked / "temporary"))
    cache = Cache(Config(cache_dir=blocked / "cache"))
    assert cache.folder is None
    assert not cache.load(KEY, build).hit
    assert not cache.load(KEY, build).hit
    assert "not kept" in caplog.text


def test_zero_bytes_switch_the_cache_off(folder: Path) -> None:
    assert not Cache(Config(cache_dir=folder, cache_bytes=0)).load(KEY, build).hit
    assert not folder.exists()


def test_a_full_disk_runs_uncached_with_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int, mode: str) -> object:
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    cache = Cache(Config(cache_dir=folder))
    monkeypatch.setattr(os, "fdopen", full)
    assert cache.load(KEY, build).artifact.metadata["name"] == "made"
    assert "No space left" in caplog.text
    assert kept(folder) == []


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(Config(cache_dir=folder, cache_bytes=40_000))
    keys = [cache_key(str(number)) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.load(key, partial(build, size=8_000, key=key))
        os.utime(folder / f"{key}.circlet", (1000 + age, 1000 + age))
    later = time.time() + 60
    monkeypatch.setattr("time.time", lambda: later)
    assert cache.load(keys[0], refuse).hit
    cache.load(keys[3], partial(build, size=8_000, key=keys[3]))
    left = {path.stem for path in folder.glob("*.circlet")}
    assert left == {keys[0], keys[2], keys[3]}


def test_what_is_larger_than_the_limit_is_still_used(folder: Path) -> None:
    cache = Cache(Config(cache_dir=folder, cache_bytes=10))
    assert cache.load(KEY, build).artifact.metadata["name"] == "made"
    assert cache.load(KEY, refuse).hit


def test_leftovers_of_interrupted_writers_are_removed(folder: Path) -> None:
    cache = Cache(Config(cache_dir=folder))
    old, new = f".{KEY}.circlet.1-00.tmp", f".{KEY}.circlet.2-00.tmp"
    for name, used in ((old, 1000.0), (new, time.time())):
        (folder / name).write_text("")
        os.utime(folder / name, (used, used))
    cache.prune()
    assert kept(folder) == [new]


def _load_in_process(folder: Path, log: Path) -> None:
    def slow() -> bytes:
        with log.open("a") as file:
            file.write("built\n")
        time.sleep(0.3)
        return build()

    assert Cache(Config(cache_dir=folder)).load(KEY, slow).artifact.metadata["name"] == "made"


def test_processes_that_ask_at_once_build_once(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_load_in_process, args=(folder, log)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"
    assert kept(folder) == [f"{KEY}.circlet"]


def test_threads_that_ask_at_once_build_once(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    threads = [threading.Thread(target=_load_in_process, args=(folder, log)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_text() == "built\n"


def test_a_failed_build_leaves_nothing(folder: Path) -> None:
    def fail() -> bytes:
        raise CircletError("no")

    cache = Cache(Config(cache_dir=folder))
    with pytest.raises(CircletError):
        cache.load(KEY, fail)
    assert kept(folder) == []


def test_digests_follow_the_content(folder: Path, tmp_path: Path) -> None:
    cache = Cache(Config(cache_dir=folder))
    model = tmp_path / "model"
    model.write_bytes(b"one")
    first = cache.file_digest(StoredFile(model))
    model.write_bytes(b"two")
    assert cache.file_digest(StoredFile(model)) != first
    assert kept(folder) == []


def test_digests_of_settled_files_are_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(Config(cache_dir=folder))
    model = tmp_path / "model"
    model.write_bytes(b"one")
    later = time.time() + 60
    monkeypatch.setattr("time.time", lambda: later)
    first = cache.file_digest(StoredFile(model))
    read = StoredFile.data
    monkeypatch.setattr(
        StoredFile, "data", lambda file: refuse() if file.name == str(model) else read(file)
    )
    assert cache.file_digest(StoredFile(model)) == first


def test_another_folder_than_the_chosen_one_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    config = Config.from_environment({"CIRCLET_CACHE_DIR": str(tmp_path / "file")})
    with caplog.at_level(logging.WARNING, "circlet.cache"):
        found = [usable_folder(config), usable_folder(config)]
    assert {folder.path for folder in found if folder} == {str(tmp_path / f"circlet-{os.getuid()}")}
    assert caplog.text.count("it is not a folder") == 1


def test_a_warm_cache_that_may_only_be_read_is_used_and_left_alone(folder: Path) -> None:
    """By another user than root, whom no mode keeps from writing."""
    user = os.getuid() or 12345
    cache = Cache(Config(cache_dir=folder))
    cache.load(KEY, build)
    for path in (*folder.iterdir(), folder):
        os.chown(path, user, -1)
        path.chmod(0o500 if path == folder else 0o400)
    for step in list(folder.parents)[:-1]:
        if step.stat().st_uid == os.getuid():
            step.chmod(step.stat().st_mode | 0o011)
    before = states(folder)
    child = multiprocessing.get_context("fork").Process(target=use_as, args=(user, folder))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert states(folder) == before
    folder.chmod(0o700)


def states(folder: Path) -> dict[str, tuple[int, ...]]:
    """What a change of a file in a folder would change; reading it would not."""
    found = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns) for name, s in found.items()}


def use_as(user: int, folder: Path) -> None:
    """Find what is kept, and build what is not without keeping it; as another user."""
    os.setuid(user)
    cache = Cache(Config(cache_dir=folder))
    assert cache.folder is not None
    assert cache.folder.path == str(folder)
    assert not cache.folder.is_writable
    assert cache.load(KEY, refuse).hit
    other = cache_key("other")
    assert not cache.load(other, partial(build, key=other)).hit
