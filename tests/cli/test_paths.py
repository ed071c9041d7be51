"""A path that names no file ends in a code that says so, wherever it is given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import circlet as package
from circlet import Interpreter, Session
from circlet.commands.compile import CompileRequest, compile_to_file
from circlet.commands.run import RunRequest, run_network
from circlet.config import Config, temporary_cache_folder
from circlet.errors import CircletError, FileError, InputError
from circlet.formats.arrays import Wanted, read_array
from circlet.formats.convert import convert
from circlet.formats.sound_files import read_sound
from tests import child
from tests.cli.call import in_shell
from tests.runtime import networks
from tests.tiers import quick_of

BAD = ("nul", "surrogate", "long", "folder", "pipe", "socket", "device", "missing", "loop", "below")
HANG_S = 120
PICTURE = Wanted("x", "float32", (1, 2, 2, 3))
VECTOR = Wanted("x", "float32", (4,))
LINES = Wanted("x", "object", (4,))


@pytest.fixture(autouse=True)
def no_hang_at_a_pipe() -> Iterator[None]:
    """A test that waits for a writer fails."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits for a writer")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A path that names no file."""
    path = tmp_path / "bad"
    kind = request.param
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            yield path
            return
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "below":
        path.write_text("a file")
    paths = {
        "nul": Path("a\0b"),
        "surrogate": Path("a\ud800b"),
        "long": Path("x" * 5000),
        "device": Path("/dev/zero"),
        "below": path / "file",
    }
    yield paths.get(kind, path)


def model(folder: Path) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(networks.relu())
    return path


READERS: dict[str, Callable[[Path], object]] = {
    "picture": lambda path: read_array(path, PICTURE),
    "npy": lambda path: read_array(path.with_name(f"{path.name}.npy"), VECTOR),
    "lines": lambda path: read_array(path, LINES),
    "wav": read_sound,
    "labels": lambda path: run_network(RunRequest(labels=path)),
    "input": lambda path: run_network(RunRequest(inputs=(path,))),
}
UNWRITTEN = Path(tempfile.gettempdir()) / "never-written.circle"
MODEL_READERS: dict[str, Callable[[Path], object]] = {
    "load": package.load,
    "session": Session,
    "session-without-cache": lambda path: Session(path, cache=False),
    "interpreter": lambda path: Interpreter(str(path)),
    "convert": lambda path: convert(path, UNWRITTEN),
    "compile": lambda path: compile_to_file(CompileRequest(UNWRITTEN, path)),
    "run": lambda path: run_network(RunRequest(model=path)),
}
WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "save": lambda path, source: package.save(package.load(source), path, "tflite"),
    "compile": lambda path, source: compile_to_file(CompileRequest(path, source)),
    "run": lambda path, source: run_network(RunRequest(model=source, output=path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_must_be_a_file(reader: str, bad: Path) -> None:
    with pytest.raises(FileError) as caught:
        READERS[reader](bad)
    assert str(caught.value).isascii() and caught.value.where.startswith(str(bad))


@pytest.mark.parametrize("reader", MODEL_READERS)
def test_a_model_must_be_a_file(reader: str, bad: Path) -> None:
    with pytest.raises(FileError) as caught:
        MODEL_READERS[reader](bad)
    assert caught.value.where == str(bad)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_takes_the_place_of_files_only(
    writer: str, bad: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "missing" in request.node.callspec.id:
        pytest.skip("what is not there yet may be written")
    source = model(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileError) as caught:
        WRITERS[writer](bad, source)
    assert caught.value.where == str(bad)
    assert sorted(tmp_path.iterdir()) == before
    assert Path("/dev/zero").is_char_device()


def test_settings_that_make_no_sense_are_refused_or_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CIRCLET_CACHE_BYTES", "CIRCLET_THREADS"):
        for text in ("9" * 5000, "-1", "1e3", "\ud800", "٣"):
            with pytest.raises(InputError, match=name):
                Config.from_environment({name: text})
    assert Config.from_environment({"CIRCLET_CACHE_DIR": "~nobody-of-that-name/x"}).cache_dir
    monkeypatch.setattr("tempfile.gettempdir", _no_folder)
    assert temporary_cache_folder()
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(CircletError) as caught:
        Session(networks.relu(size=7), cache=False)
    assert caught.value.code == "E-CACHE"


def _no_folder() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found")


SCRIPTS = {
    "broken-pipe": "{circlet} dump {model} | head -c 1 >/dev/null",
    "closed-output": "{circlet} run >&-",
    "closed-output-of-a-table": "{circlet} inspect {model} >&-",
    "closed-input": "{circlet} run --no-cache <&-",
    "all-closed": "{circlet} run <&- >&- 2>&-",
    "ascii": "LC_ALL=C LANG=C PYTHONUTF8=0 PYTHONIOENCODING=ascii {circlet} run {model}",
    "no-home": "env -u HOME -u CIRCLET_CACHE_DIR TMPDIR={folder} {circlet} run {model}",
    "deleted-folder": "mkdir {folder}/d && cd {folder}/d && rmdir ../d && {circlet} run",
    "deleted-folder-of-the-cache": "mkdir {folder}/e && cd {folder}/e && rmdir ../e && "
    "CIRCLET_CACHE_DIR=x {circlet} run",
    "no-such-temporary-folder": "TMPDIR=/nowhere {circlet} run --no-cache",
    "few-files": "ulimit -n 24; {circlet} run --no-cache",
    "small-stack": "ulimit -s 512; {circlet} run --no-cache",
    "little-room": "ulimit -f 1; {circlet} run --no-cache",
}
MAY_FAIL = {"few-files": "[E-", "little-room": "[E-", "broken-pipe": ""}


QUICK = {"broken-pipe", "closed-output", "all-closed", "ascii", "no-home", "deleted-folder"}
QUICK |= MAY_FAIL.keys()


@pytest.mark.parametrize("name", quick_of(SCRIPTS, QUICK))
def test_the_program_stands_in_odd_surroundings(name: str, tmp_path: Path) -> None:
    program = f"{sys.executable} -m circlet"
    source = model(tmp_path)
    script = SCRIPTS[name].format(circlet=program, model=source, folder=tmp_path)
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env=child.environment(),
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    err = done.stderr.decode()
    assert "Traceback" not in err and done.returncode >= 0, err
    if name not in MAY_FAIL:
        assert done.returncode == 0, err
    elif done.returncode:
        assert MAY_FAIL[name] in err


def test_the_command_says_what_is_wrong_in_one_message(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = in_shell("run", "--labels", tmp_path / "pipe")
    assert done.returncode == 1 and "[E-FILE]" in done.stderr
    assert "it is a pipe, not a file" in done.stderr and done.stderr.count("\n") == 4
