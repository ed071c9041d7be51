"""Stress: files that are killed over, exchanged, truncated, overwritten and damaged, at random.

The seeds are fixed; what the scheduler does between two processes is not. Every answer must be the
true one, or an error with a code.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.artifact.cache import Cache
from circlet.compiler.compile import compile_model
from circlet.config import Config
from circlet.errors import CircletError
from circlet.options import Options
from tests.runtime import networks

pytestmark = pytest.mark.slow

SIZES = (6, 7)
KILLS, EXCHANGES, FLIPS = 200, 200, 1000
_OPEN = """
import sys
import numpy as np
from circlet import Session
session = Session(sys.argv[1])
size = session.inputs[0].shape[0]
(y,) = session.run([np.linspace(-1, 1, size, dtype=np.float32)]).values()
assert np.array_equal(y, np.maximum(np.linspace(-1, 1, size, dtype=np.float32), 0))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _is_right(session: Session) -> bool:
    """Whether a session answers as the network does whose size it has."""
    (size,) = session.inputs[0].shape
    x = np.linspace(-1, 1, size, dtype=np.float32)
    return bool(np.array_equal(*session.run([x]).values(), np.maximum(x, 0)))  # type: ignore[call-arg, arg-type]


def test_kills_at_random_moments_leave_a_cache_that_works(folder: Path, tmp_path: Path) -> None:
    chance, path = random.Random(0), tmp_path / "m.tflite"
    path.write_bytes(networks.relu(6))
    program = [sys.executable, "-c", _OPEN, str(path)]
    subprocess.run(program, check=True, timeout=120)
    for number in range(KILLS):
        path.write_bytes(networks.relu(6 + number % 40))
        process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.02, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    for size in range(6, 46):
        assert _is_right(Session(networks.relu(size)))
    Cache(Config(cache_dir=folder, cache_bytes=1)).prune()
    left = {path.name.rpartition(".")[2] for path in folder.iterdir()}
    assert left <= {"TAG", "lock", "tmp", "memo", "compiler"}


@contextmanager
def _beside(changes: Callable[[], None]) -> Iterator[None]:
    """Does something to files again and again in another process."""
    child = os.fork()
    if child == 0:
        try:
            while True:
                changes()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("how", ["renamed", "overwritten", "truncated"])
@pytest.mark.parametrize("what", ["model", "artifact"])
def test_files_that_change_give_their_own_answers_or_a_code(
    what: str, how: str, folder: Path, tmp_path: Path
) -> None:
    models = [networks.relu(size) for size in SIZES]
    compiled = [compile_model(model, Options()) for model in models]
    contents = models if what == "model" else compiled
    call = Session if what == "model" else load_artifact
    path, chance = tmp_path / "file", random.Random(1)
    path.write_bytes(contents[0])

    def change() -> None:
        data = chance.choice(contents)
        if how == "renamed":
            (tmp_path / "new").write_bytes(data)
            (tmp_path / "new").replace(path)
        elif how == "overwritten":
            path.write_bytes(data)
        else:
            path.write_bytes(data)
            os.truncate(path, chance.randrange(len(data)))

    opened, answers = [], 0
    with _beside(change):
        for _ in range(EXCHANGES):
            try:
                opened.append(call(path))
            except CircletError:
                continue
            answers += _is_right(opened[-1])
    assert answers == len(opened)
    assert all(map(_is_right, opened))
    if how == "renamed":
        assert len(opened) > EXCHANGES // 2
    for model in models:
        assert _is_right(Session(model))


def test_flipped_bits_are_noticed_or_harmless(folder: Path, tmp_path: Path) -> None:
    source, x = networks.convolutions(8, 8, 1), networks.convolutions_input(8, 8)
    (wanted,) = Session(source, cache=False).run([x]).values()
    artifact = compile_model(source, Options())
    path, chance, refused = tmp_path / "m.circlet", random.Random(2), 0
    for _ in range(FLIPS):
        damaged = bytearray(artifact)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            session = load_artifact(path)
        except CircletError:
            refused += 1
            continue
        np.testing.assert_array_equal(list(session.run([x]).values()), [wanted])
    assert refused > FLIPS // 2


def test_flipped_bits_in_the_cache_are_built_again(folder: Path) -> None:
    source, x = networks.convolutions(8, 8, 1), networks.convolutions_input(8, 8)
    (wanted,) = Session(source).run([x]).values()
    chance = random.Random(3)
    for _ in range(50):
        (path,) = folder.glob("*.circlet")
        with path.open("r+b") as file:
            place = chance.randrange(path.stat().st_size)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))
        np.testing.assert_array_equal(list(Session(source).run([x]).values()), [wanted])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_neighbour_in_a_shared_folder_never_has_his_code_loaded(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be two users")
    shared = tmp_path / "shared"
    for step in (tmp_path, *list(tmp_path.parents)[:-1]):
        if step.stat().st_uid == 0 and not step.stat().st_mode & 0o001:
            step.chmod(step.stat().st_mode | 0o011)
    shared.mkdir()
    shared.chmod(0o777)
    mine, theirs = shared / "cache", shared / "theirs"
    mine.mkdir(mode=0o700)

    def exchange() -> None:
        if os.getuid() == 0:
            os.setuid(12345)
            theirs.mkdir(mode=0o700)
        for first, second in ((mine, shared / "aside"), (theirs, mine), (mine, theirs)):
            first.rename(second)
        (shared / "aside").rename(mine)

    refused = 0
    with _beside(exchange):
        for _ in range(EXCHANGES):
            try:
                found = Cache(Config(cache_dir=mine, cache_is_chosen=True)).folder
            except CircletError:
                refused += 1
            else:  # nothing was there at that moment
                assert found is None or not found.path.startswith(str(shared))
    assert refused > EXCHANGES // 2
