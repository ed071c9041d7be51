from __future__ import annotations

import os
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, get_ident

import pytest

from circlet.backends.cpu.c_compiler import compiler_identity, find_compiler
from circlet.backends.cpu.toolchain import UnitSource, compile_unit, compile_units, started
from circlet.config import Config
from circlet.errors import CacheError, CircletError, CompileError, CompilerMissingError, InputError
from circlet.target.targets import native_target, parse_target

UNIT = 'int f(int x) { return x + 1; }\n__attribute__((visibility("default"))) int g = 1;\n'
MACHINES = {"x86_64": 62, "aarch64": 183, "armv7": 40, "riscv64": 243}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("arch", sorted(MACHINES))
def test_every_architecture_compiles(arch: str, config: Config) -> None:
    image = compile_unit(UNIT, parse_target(arch), config=config)
    assert image[:4] == b"\x7fELF"
    assert int.from_bytes(image[18:20], "little") == MACHINES[arch]


def test_a_unit_needs_no_library(config: Config) -> None:
    assert b".so" not in compile_unit(UNIT, native_target(), config=config).split(b".shstrtab")[0]


def test_compiling_is_reproducible(config: Config) -> None:
    units = [UnitSource(UNIT, native_target())] * 3
    assert len(set(compile_units(units, config=config))) == 1


def test_no_files_are_left_behind(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compile_unit(UNIT, native_target(), config=config)
    assert [path.name for path in tmp_path.rglob("*") if "cache" not in path.parts] == [
        f"circlet-work-{os.getuid()}"
    ]


def test_a_refused_text_shows_the_first_diagnostics(config: Config) -> None:
    with pytest.raises(CompileError, match="undeclared function 'missing'"):
        compile_unit("int f(void) { return missing(); }", native_target(), config=config)


def test_a_compiler_that_is_no_program_is_missing() -> None:
    for command in ("/no/such/cc", "' unbalanced", "no-such-compiler -O2"):
        with pytest.raises(CompilerMissingError):
            find_compiler(Config(compiler=command))


def test_an_absent_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda name: None)
    with pytest.raises(CompilerMissingError, match="circlet\\[compile\\]"):
        find_compiler(Config())


def test_an_unwritable_cache_does_not_stop_compiling(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert compile_unit(UNIT, native_target(), config=Config(cache_dir=blocked / "cache"))


def test_an_unwritable_temporary_folder_is_a_coded_error(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(CacheError):
        compile_unit(UNIT, native_target(), config=config)


def test_a_full_disk_is_a_coded_error_without_the_compilers_text(
    config: Config, tmp_path: Path
) -> None:
    fake = tmp_path / "cc"
    fake.write_text(
        "#!/bin/sh\necho 'LLVM ERROR: IO failure: No space left on device' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    with pytest.raises(CircletError) as caught:
        compile_unit(UNIT, native_target(), config=Config(str(fake), config.cache_dir))
    assert caught.value.code == "E-CACHE"
    assert "LLVM" not in str(caught.value)


def test_identity_changes_with_the_binary(tmp_path: Path) -> None:
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    before = compiler_identity(Config(compiler=str(fake)))
    os.utime(fake, ns=(1, 1))
    assert compiler_identity(Config(compiler=str(fake))) != before


@pytest.mark.skipif(shutil.which("gcc") is None, reason="GCC is not installed")
def test_gcc_is_accepted_through_the_environment(tmp_path: Path) -> None:
    config = Config.from_environment({"CIRCLET_CC": "gcc -pipe", "HOME": str(tmp_path)})
    assert find_compiler(config).family == "gcc"
    assert compile_unit(UNIT, native_target(), config=config)[:4] == b"\x7fELF"


def test_a_setting_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="CIRCLET_CACHE_BYTES"):
        Config.from_environment({"CIRCLET_CACHE_BYTES": "2 GB"})


@pytest.mark.parametrize("compiler", ["true", "false"])
def test_a_chosen_compiler_that_makes_nothing_is_named(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not there")
    monkeypatch.setenv("CIRCLET_CC", compiler)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(CompileError, match="wrote no file") as caught:
        compile_unit(UNIT, native_target())
    assert caught.value.where.startswith(f"{compiler}, target ")
    assert "unset CIRCLET_CC" in caught.value.fix


def test_a_chosen_compiler_that_is_not_there_is_to_be_corrected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nowhere/cc")
    with pytest.raises(CompilerMissingError, match="correct CIRCLET_CC"):
        find_compiler()


def test_a_signal_that_another_thread_got_is_heard_while_waiting() -> None:
    is_over, is_done = Event(), Event()

    def compiled(_: int) -> None:
        is_over.wait(0.5)  # the other thread waits by then
        signal.pthread_kill(get_ident(), signal.SIGINT)
        is_over.wait(20)
        is_done.set()

    with ThreadPoolExecutor(1) as pool:
        try:
            with pytest.raises(KeyboardInterrupt):
                list(started(pool, compiled, [0]))
            assert not is_done.is_set()
        finally:
            is_over.set()
