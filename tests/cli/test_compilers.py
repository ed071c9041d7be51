"""What commands say where the C compiler is missing, or makes no code for what was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from circlet.target.host import host_architecture
from tests.cli.call import as_json, circlet, in_shell
from tests.runtime import networks

FOREIGN = next(arch for arch in ("aarch64", "x86_64") if arch != host_architecture())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "relu.tflite"
    path.write_bytes(networks.relu(size=5))
    return path


def test_compile_refuses_where_nothing_compiles(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nonexistent")
    made = tmp_path / "a.circlet"
    error = as_json("compile", model, "-o", made, code=1)["error"]
    assert error["code"] == "E-COMPILER-MISSING" and "CIRCLET_CC names" in error["why"]
    assert "--without-compiler" in error["fix"] and not made.exists()


def test_compile_makes_an_artifact_for_numpy_where_that_is_asked_for(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nonexistent")
    for more in (["--without-compiler"], ["--backend", "reference"]):
        made = tmp_path / "a.circlet"
        assert as_json("compile", model, "-o", made, *more)["native_ops"] == 0
        assert as_json("run", made)["ops"] == 1


def test_a_missing_compiler_is_said_at_every_start(model: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "cc"
    blocked.write_text("no program")
    for named in ("/nonexistent/cc", "/nonexistent/cc", str(blocked)):  # cold, warm, another
        done = in_shell("run", model, CIRCLET_CC=named, CIRCLET_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 0
        assert f"CIRCLET_CC names '{named}', which is not a program" in done.stderr


def test_run_refuses_another_architecture_before_it_compiles(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nonexistent")  # what compiled would say so first
    error = as_json("run", model, "--target", FOREIGN, code=1)["error"]
    assert (error["code"], error["where"]) == ("E-TARGET", f"target {FOREIGN}")
    assert "circlet compile --target" in error["fix"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc, which compiles for one target")
def test_compile_says_that_the_compiler_makes_no_code_for_the_target(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "gcc")
    error = as_json("compile", model, "-o", tmp_path / "a", "--target", FOREIGN, code=1)["error"]
    assert error["code"] == "E-TARGET" and f"no code for {FOREIGN}" in error["what"]
    assert "ziglang" in error["fix"]


def test_cross_compiling_works(model: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.circlet"
    assert circlet("compile", model, "-o", made, "--target", FOREIGN).exit_code == 0
    assert made.stat().st_size
