from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from circlet import __version__, config
from circlet.artifact.cache import TAG, cache_key
from circlet.artifact.folder import PrivateFolder
from circlet.cli import group
from circlet.errors import FileError
from tests.cli.call import as_json, circlet, in_shell
from tests.runtime import networks

pytestmark = pytest.mark.usefixtures("units_for_any_cache")

KEY = cache_key("network")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "relu.tflite"
    path.write_bytes(networks.relu())
    return path


def test_compile_reports_what_it_made(model: Path, tmp_path: Path) -> None:
    artifact = tmp_path / "a.circlet"
    report = as_json("compile", model, "-o", artifact)
    assert report["artifact"] == str(artifact)
    assert report["size_bytes"] == artifact.stat().st_size
    assert (report["native_ops"], report["ops"]) == (1, 1)
    assert report["lower_bound_bytes"] <= report["arena_bytes"]


def test_compile_without_a_model_takes_the_sample(tmp_path: Path) -> None:
    result = circlet("compile", "-o", tmp_path / "s.circlet")
    assert result.exit_code == 0
    assert "operators in native code" in result.stdout
    assert as_json("run", tmp_path / "s.circlet")["native_ops"] > 0


def test_compile_makes_code_for_several_targets(model: Path, tmp_path: Path) -> None:
    report = as_json("compile", model, "-o", tmp_path / "a", "--target", "generic,aarch64")
    assert len(report["targets"]) == 2


def test_an_artifact_for_another_cpu_is_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.circlet"
    assert circlet("compile", model, "-o", path, "--target", "riscv64").exit_code == 0
    error = as_json("run", path, code=1)["error"]
    assert (error["code"], error["where"]) == ("E-TARGET", str(path))


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
def test_compile_takes_a_level(model: Path, tmp_path: Path, level: str) -> None:
    assert circlet("compile", model, "-o", tmp_path / "a", "-O", level).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("/nowhere.tflite", "-o", "{tmp}/a"), "E-FILE"),
        (("{model}", "-o", "/nowhere/a"), "E-FILE"),
        (("{model}", "-o", "{tmp}/a", "-O", "O9"), None),
        (("{model}", "-o", "{tmp}/a", "--target", "pdp11"), "E-TARGET"),
    ],
    ids=["model", "output", "level", "target"],
)
def test_compile_fails_with_a_code_and_leaves_nothing(
    model: Path, tmp_path: Path, arguments: tuple[str, ...], code: str | None
) -> None:
    filled = [part.format(model=model, tmp=tmp_path) for part in arguments]
    error = as_json("compile", *filled, code=1)["error"]
    assert code in (None, error["code"])
    assert [path.name for path in tmp_path.iterdir()] == [model.name]


def test_doctor_checks_everything_here() -> None:
    findings = as_json("doctor")
    subjects = [finding["subject"] for finding in findings]
    assert subjects[:4] == ["machine", "cache", "cpu", "reference"]
    engines = {"litert", "openvino", "onnxruntime", "opencl"}  # where they are installed
    assert set(subjects[4:]) <= engines
    assert all(finding["ok"] for finding in findings)
    lines = circlet("doctor").stdout.splitlines()
    assert sum(line.startswith("ok  ") for line in lines) == len(subjects)
    column = 4 + max(map(len, subjects)) + 2
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)


def test_doctor_says_what_is_missing() -> None:
    done = in_shell("doctor", CIRCLET_CC="/nowhere/cc")
    assert done.returncode == 1
    assert "NOT cpu" in done.stdout
    assert "/nowhere/cc" in done.stdout
    assert "ok  reference" in done.stdout


def test_doctor_finds_damaged_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / TAG).touch()
    (folder / f"{KEY}.circlet").write_bytes(b"CIRCLETA damaged")
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))
    done = circlet("doctor")
    assert done.exit_code == 1
    assert f"{KEY}.circlet" in done.stdout


def test_doctor_takes_artifacts_of_another_version_for_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / TAG).touch()
    (folder / f"{KEY}.circlet").write_bytes(b"CIRCLETA" + (2).to_bytes(4, "little") + bytes(80))
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))
    (finding,) = [entry for entry in as_json("doctor") if entry["subject"] == "cache"]
    assert finding["ok"] and "1 artifact (1 of other versions)" in finding["text"]


def test_doctor_lets_other_processes_prune_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / TAG).touch()
    (folder / f"{KEY}.circlet").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))
    (finding,) = [entry for entry in as_json("doctor") if entry["subject"] == "cache"]
    assert finding["ok"] and "0 artifacts" in finding["text"]


def test_doctor_finds_a_cache_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = PrivateFolder.write

    def refuse(folder: PrivateFolder, name: str, data: bytes) -> None:
        if name.startswith("room"):
            raise FileError("a file cannot be written", why="No space left on device")
        write(folder, name, data)

    monkeypatch.setattr(PrivateFolder, "write", refuse)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    (finding,) = [entry for entry in as_json("doctor", code=1) if entry["subject"] == "cache"]
    assert "E-CACHE" in finding["text"] and "No space left" in finding["text"]


def test_the_version_is_that_of_the_package() -> None:
    assert __version__ in circlet("--version").stdout


def test_help_lists_every_variable_of_the_environment() -> None:
    source = Path(config.__file__).read_text(encoding="utf-8")
    text = circlet("--help").stdout
    assert all(f" {name} " in text for name in set(re.findall(r"CIRCLET_[A-Z_]+", source)))


def test_help_lists_the_commands() -> None:
    text = circlet("--help").stdout
    assert all(name in text for name in ("run", "compile", "doctor"))
    assert "--input" in circlet("run", "-h").stdout


def commands(found: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its name; groups hold others."""
    if not isinstance(found, click.Group):
        yield name, found
        return
    ctx = click.Context(found)
    for part in found.list_commands(ctx):
        command = found.get_command(ctx, part)
        assert command is not None
        yield from commands(command, f"{name} {part}".strip())


COMMANDS = dict(commands(group))
SERVERS = {"fleet serve", "fleet work"}  # which run until they are stopped


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_names_all_formats_or_none(name: str) -> None:
    command = COMMANDS[name]
    options = [option for param in command.params for option in param.opts]
    assert "--json" in options or name in SERVERS
    assert ".tflite or .circle)" not in (command.help or "")


def test_keys_and_signatures_are_told_as_json(tmp_path: Path) -> None:
    artifact, key = tmp_path / "a.circlet", tmp_path / "key"
    assert circlet("compile", "-o", artifact).exit_code == 0
    made = as_json("keygen", key)
    assert Path(made["private_key"]) == key and Path(made["public_key"]).exists()
    signed = as_json("sign", artifact, "--key", key)
    assert Path(signed["signature"]).exists()
    assert signed["digest"] == as_json("inspect", artifact)["digest"]


def test_a_backend_that_is_not_there_is_answered_with_all_that_could_be() -> None:
    error = as_json("run", "--backend", "gpu", code=1)["error"]
    for name in ("cpu", "reference", "litert", "openvino", "opencl", "onnxruntime"):
        assert name in error["fix"]
