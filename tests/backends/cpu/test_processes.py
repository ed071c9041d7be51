"""Compilers end with whoever started them, and their folders with the next that compiles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from circlet import scratch
from circlet.backends.cpu import processes, toolchain
from circlet.backends.cpu.processes import Compilers
from circlet.backends.cpu.toolchain import UnitSource, compile_unit, compile_units
from circlet.config import Config, temporary_cache_folder
from circlet.errors import CompileError, CompilerMissingError
from circlet.scratch import folder_of_process, scratch_folder
from circlet.target.targets import native_target
from tests import child
from tests.runtime import networks

ROOT = Path(__file__).parents[3]
UNIT = '__attribute__((visibility("default"))) int g = 1;\n'
WAIT_S = 120.0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of this test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def work_of(temporary: Path) -> list[Path]:
    return sorted(temporary.glob("circlet-work-*/*"))


def running_below(folder: Path) -> Iterator[int]:
    """Processes whose working folder lies below a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = str((process / "cwd").readlink())
        except OSError:
            continue
        if where.startswith(f"{folder}/"):
            yield int(process.name)


def becomes(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_killed_process_leaves_no_compiler_and_the_next_removes_its_folder(
    name: str, temporary: Path
) -> None:
    command = [sys.executable, "-m", "tests.backends.cpu.killed", str(temporary / "cache")]
    environment = child.environment()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert becomes(lambda: bool(list(running_below(temporary))))
    process.send_signal(getattr(signal, name))
    assert process.wait(WAIT_S) != 0
    process.communicate()
    assert becomes(lambda: not list(running_below(temporary)))
    compile_unit(UNIT, native_target(), config=Config(cache_dir=temporary / "cache"))
    assert work_of(temporary) == []


def test_only_folders_that_nobody_holds_are_removed(temporary: Path) -> None:
    with scratch_folder() as held:
        home = Path(held).parent
        for path in (home / "work-left" / "unit.c", home / "mine" / "notes.txt"):
            path.parent.mkdir()
            path.write_text("text")
        (home / "work-link").symlink_to(home / "mine")
        scratch.sweep(str(home))
        assert sorted(path.name for path in home.iterdir()) == sorted(
            ["mine", "work-link", Path(held).name]
        )
        assert (home / "mine" / "notes.txt").exists()
    assert not Path(held).exists()


def test_a_taken_name_does_not_stop_anybody(temporary: Path) -> None:
    (temporary / f"circlet-work-{os.getuid()}").write_text("somebody else's")
    with scratch_folder() as folder:
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert not Path(folder).exists()


def test_a_taken_cache_gives_way_to_one_of_the_process(
    temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = temporary / f"circlet-{os.getuid()}"
    assert temporary_cache_folder() == str(taken)
    taken.symlink_to("/etc")
    found = Path(temporary_cache_folder())
    assert found.is_dir() and found.stat().st_mode & 0o777 == 0o700
    assert str(found) == folder_of_process() == temporary_cache_folder()
    assert "is not yours" in caplog.text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of others")
def test_a_user_without_a_home_runs_beside_a_folder_of_somebody_else(temporary: Path) -> None:
    taken = temporary / f"circlet-{os.getuid()}"
    taken.mkdir(0o700)
    os.chown(taken, 1234, 1234)
    environment = child.environment()
    for name in ("HOME", "CIRCLET_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    model = temporary / "model.tflite"
    model.write_bytes(networks.relu())
    command = [sys.executable, "-m", "circlet", "run", str(model)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("for this process only") == 1
    assert work_of(temporary) == [] and list(taken.iterdir()) == []


def test_a_compiler_that_fails_stops_the_others(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = temporary / "cc"
    slow.write_text(
        "#!/bin/sh\ntest -f unit.c || exit 0\ngrep -q wrong unit.c && exit 1\nsleep 600\n"
    )
    slow.chmod(0o755)
    monkeypatch.setattr(toolchain, "usable_cores", lambda: 2)
    units = [UnitSource(text, native_target()) for text in ("wrong", UNIT)]
    with pytest.raises(CompileError):
        compile_units(units, config=Config(compiler=str(slow), cache_dir=temporary / "cache"))
    assert becomes(lambda: not list(running_below(temporary)))


def test_a_compiler_that_does_not_end_is_ended(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "TIMEOUT_S", 0.2)
    with Compilers() as compilers, pytest.raises(CompileError, match="did not finish"):
        (temporary / "in").mkdir()
        command = ["/bin/sh", "-c", "sleep 600 & sleep 600"]
        compilers.run(command, str(temporary / "in"), dict(os.environ))
    assert becomes(lambda: not list(running_below(temporary)))  # a little later than the shell


def test_one_thread_compiles_where_no_more_are_to_be_had(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: object) -> None:
        raise RuntimeError("can't start new thread")

    units = [UnitSource(UNIT, native_target())] * 3
    monkeypatch.setattr("threading.Thread.start", refuse)
    assert len(compile_units(units, config=Config(cache_dir=temporary / "cache"))) == 3


def test_no_processes_to_be_had_are_not_blamed_on_the_disk(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(CompilerMissingError, match="ulimit -v, -u"):
        compile_unit(UNIT, native_target(), config=Config(cache_dir=temporary / "cache"))


def test_without_a_cache_no_folder_of_it_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    program = (
        "from circlet import Session\nfrom tests.runtime import networks\n"
        "s = Session(networks.relu(), cache=False)\n"
        "s.run([networks.np.zeros(v.shape, 'f4') for v in s.inputs])\n"
        "s.resized({v.name: v.shape for v in s.inputs})\n"
    )
    environment = child.environment(CIRCLET_CACHE_DIR=str(folder))
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
    assert not folder.exists()
