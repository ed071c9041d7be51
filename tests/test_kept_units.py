"""Units that tests keep: found again by what they are made of, and by nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from circlet.backends.cpu import toolchain
from circlet.backends.cpu.c_compiler import Compiler, find_compiler
from circlet.backends.cpu.processes import Compilers, Done
from circlet.backends.cpu.toolchain import UnitSource, compile_unit
from circlet.config import Config
from circlet.target.targets import parse_target
from tests import kept_units

PLAIN = UnitSource("int f;", parse_target("generic"))
OTHERS = [
    UnitSource("int g;", PLAIN.target),
    UnitSource(PLAIN.text, parse_target("aarch64")),
    UnitSource(PLAIN.text, PLAIN.target, ("-O1",)),
]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[UnitSource]:
    """What is really compiled."""
    made: list[UnitSource] = []

    def compile_one(
        scratch: Path,
        unit: UnitSource,
        compiler: Compiler,
        compilers: Compilers,
        environment: dict[str, str],
    ) -> bytes:
        made.append(unit)
        return f"code {len(made)}".encode()

    monkeypatch.setattr(toolchain, "_compile_one", compile_one)
    return made


def build(folder: Path, unit: UnitSource, cache: str = "tests") -> bytes:
    compile_or_find = kept_units.keeping(folder, Path("tests"))
    environment = {"ZIG_GLOBAL_CACHE_DIR": f"{cache}/compiler"}
    return compile_or_find(folder / "scratch", unit, find_compiler(), Compilers(), environment)


def test_an_equal_unit_is_compiled_once(tmp_path: Path, builds: list[UnitSource]) -> None:
    assert [build(tmp_path, PLAIN) for _ in range(3)] == [b"code 1"] * 3
    assert len(builds) == 1


def test_threads_that_compile_the_same_at_once_do_not_meet_in_one_file(
    tmp_path: Path, builds: list[UnitSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_written, replace = Barrier(2, timeout=60), os.replace

    def replace_when_both_have_written(*given: Any, **named: Any) -> None:
        both_have_written.wait()
        replace(*given, **named)

    monkeypatch.setattr(os, "replace", replace_when_both_have_written)
    with ThreadPoolExecutor(2) as pool:
        codes = set(pool.map(lambda _: build(tmp_path, PLAIN), range(2)))
    assert codes <= {b"code 1", b"code 2"}
    assert [path.read_bytes() in codes for path in tmp_path.iterdir()] == [True]


def test_names_of_operators_do_not_tell_units_apart(
    tmp_path: Path, builds: list[UnitSource]
) -> None:
    texts = ("/* conv1 and 2 more */\nint f;", "/* dense */\nint f;", "/* dense */\n\nint f;")
    units = [UnitSource(text, PLAIN.target) for text in texts]
    assert [build(tmp_path, unit) for unit in units] == [b"code 1", b"code 1", b"code 2"]


@pytest.mark.parametrize("other", OTHERS, ids=["text", "target", "flags"])
def test_a_unit_that_differs_is_compiled(
    other: UnitSource, tmp_path: Path, builds: list[UnitSource]
) -> None:
    assert build(tmp_path, PLAIN) != build(tmp_path, other)
    assert builds == [PLAIN, other]


def test_a_test_with_a_cache_of_its_own_compiles(tmp_path: Path, builds: list[UnitSource]) -> None:
    build(tmp_path, PLAIN)
    assert build(tmp_path, PLAIN, "another") == b"code 2"


def test_tests_with_the_cache_of_all_keep_what_they_compile(
    kept_units_of_earlier_tests: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept_units_of_earlier_tests is None:
        pytest.skip("pytest's cache is switched off, and CIRCLET_TEST_UNITS names no folder")
    for cached in (
        Config.from_environment(),
        Config.from_environment({"CIRCLET_CACHE_BYTES": "0"}),
    ):
        text = f"int made_{os.getpid()}_{cached.cache_bytes};"
        first = compile_unit(text, PLAIN.target, config=cached)
        with monkeypatch.context() as patch:
            patch.setattr(Compilers, "run", _refuse)
            assert compile_unit(text, PLAIN.target, config=cached) == first


def _refuse(*arguments: object) -> Done:
    raise AssertionError("it was compiled before")


def test_what_was_not_used_for_days_is_forgotten(tmp_path: Path, builds: list[UnitSource]) -> None:
    build(tmp_path, PLAIN)
    build(tmp_path, OTHERS[0])
    unused = next(tmp_path.iterdir())
    os.utime(unused, (0, 0))
    kept_units.forget_unused(tmp_path)
    assert not unused.exists()
    assert len(list(tmp_path.iterdir())) == 1
