"""Units that tests keep: found again by what they are made of, and by nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circlet.backends.cpu import toolchain
from circlet.backends.cpu.c_compiler import Compiler, find_compiler
from circlet.backends.cpu.processes import Compilers
from circlet.backends.cpu.toolchain import UnitSource
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


@pytest.mark.parametrize("other", OTHERS, ids=["text", "target", "flags"])
def test_a_unit_that_differs_is_compiled(
    other: UnitSource, tmp_path: Path, builds: list[UnitSource]
) -> None:
    assert build(tmp_path, PLAIN) != build(tmp_path, other)
    assert builds == [PLAIN, other]


def test_a_test_with_a_cache_of_its_own_compiles(tmp_path: Path, builds: list[UnitSource]) -> None:
    build(tmp_path, PLAIN)
    assert build(tmp_path, PLAIN, "another") == b"code 2"


def test_what_was_not_used_for_days_is_forgotten(tmp_path: Path, builds: list[UnitSource]) -> None:
    build(tmp_path, PLAIN)
    build(tmp_path, OTHERS[0])
    unused = next(tmp_path.iterdir())
    os.utime(unused, (0, 0))
    kept_units.forget_unused(tmp_path)
    assert not unused.exists()
    assert len(list(tmp_path.iterdir())) == 1
