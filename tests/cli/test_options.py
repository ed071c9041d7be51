"""Options that cannot do anything are refused; those of compilers are understood."""

from __future__ import annotations

import re
from pathlib import Path

import click
import numpy as np
import pytest

from circlet import load_artifact
from circlet.backends.cpu.toolchain import RUNTIME_DIR
from circlet.cli import group
from circlet.compiler.compile import compile_model
from circlet.errors import PlacementError
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.options import Options
from tests.attacks import growth
from tests.cli.call import as_json, circlet, in_shell
from tests.runtime import networks


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "relu.tflite"
    path.write_bytes(networks.relu())
    return path


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "relu.circlet"
    path.write_bytes(compile_model(networks.relu(), Options()))
    return path


@pytest.mark.parametrize(
    ("option", "where"),
    [
        (("--backend", "reference"), "backends"),
        (("--target", "baseline"), "target"),
        (("--signature", "serve"), "signature"),
        (("-O", "O0"), "level"),
        (("--precision", "bf16"), "precision"),
    ],
)
def test_an_artifact_refuses_options_of_compiling(
    artifact: Path, option: tuple[str, str], where: str
) -> None:
    error = as_json("run", artifact, *option, code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", where)
    assert "compile" in error["fix"]


@pytest.mark.parametrize("option", [("--target", "native"), ("--strict",), ("-O2",)])
def test_an_artifact_takes_options_that_it_fulfils(artifact: Path, option: tuple[str]) -> None:
    assert circlet("run", artifact, *option).exit_code == 0


def test_strict_holds_for_what_an_artifact_runs_in_numpy() -> None:
    b = builder()
    number = b.constant("number", np.int32(3))
    drawn = b.op("MULTINOMIAL", [b.input("x", DType.FLOAT32, (1, 4)), number], dtype=DType.INT64)
    b.output(drawn)
    plain = compile_model(networks.tflite(b), Options())
    assert load_artifact(plain).placement[0]["backend"] == "reference"
    with pytest.raises(PlacementError, match="not taken by 'cpu'"):
        load_artifact(plain, strict=True)


@pytest.mark.parametrize("option", ["--operators", "--tensors", "-Os", "--backend=cpu"])
def test_what_inspect_cannot_tell_of_an_artifact_is_refused(artifact: Path, option: str) -> None:
    error = as_json("inspect", artifact, option, code=1)["error"]
    assert error["code"] == "E-INPUT"
    assert option[:2] in error["why"]


@pytest.mark.parametrize("written", [("-O2",), ("-O", "2"), ("-O", "O2"), ("-OO2",)])
def test_a_level_may_be_written_as_compilers_take_it(
    model: Path, tmp_path: Path, written: tuple[str, ...]
) -> None:
    path = tmp_path / "a.circlet"
    assert circlet("compile", model, "-o", path, *written).exit_code == 0
    assert as_json("inspect", path)["level"] == "O2"


def test_backends_may_be_written_with_blanks(model: Path) -> None:
    assert as_json("run", model, "--backend", " cpu, reference,")["native_ops"] == 1
    assert as_json("run", model, "--backend", ",", code=1)["error"]["where"] == "backends"


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "{model}", "-o", "{model}.circlet", "--tune-seconds", "3"),
        ("dump", "m", "--data"),
    ],
    ids=" ".join,
)
def test_an_option_that_needs_another_one_is_wrong_usage(
    model: Path, arguments: tuple[str, ...]
) -> None:
    result = circlet(*(part.format(model=model) for part in arguments))
    assert result.exit_code == 2
    assert "needs --t" in result.stderr


@pytest.mark.parametrize(
    "options", [("--mean", "1"), ("--std", "2"), ("--start", "1"), ("--features", "mfcc")]
)
@pytest.mark.parametrize("with_input", [False, True])
def test_options_for_files_that_are_not_given_are_refused(
    model: Path, tmp_path: Path, options: tuple[str, ...], with_input: bool
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(6, np.float32))
    inputs = ("--input", tmp_path / "x.npy") if with_input else ()
    error = as_json("run", model, *inputs, *options, code=1)["error"]
    assert options[0] in error["what"]
    assert (".npy" if with_input else "random data") in error["why"]


def test_more_threads_than_the_runtime_has_are_not_claimed(model: Path) -> None:
    header = (RUNTIME_DIR / "circlet_runtime.h").read_text(encoding="utf-8")
    found = re.search(r"CIRCLET_MAX_THREADS (\d+)u", header)
    assert found is not None
    assert as_json("run", model, "--threads", 10_000)["threads"] == int(found[1])
    assert f"{found[1]} threads" in in_shell("run", CIRCLET_THREADS="10000").stdout


def test_a_file_that_is_no_input_comes_with_the_endings_that_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture", encoding="utf-8")
    error = as_json("run", "--input", tmp_path / "notes.txt", code=1)["error"]
    assert all(ending in error["fix"] for ending in (".npy", ".npz", ".raw", ".wav"))


@pytest.mark.parametrize(
    "arguments",
    [("convert", "{m}", "{m}"), ("compile", "{m}", "-o", "{m}"), ("run", "{m}", "--output", "{m}")],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_is_read_is_not_written_over(model: Path, arguments: tuple[str, ...]) -> None:
    before = model.read_bytes()
    error = as_json(*(part.format(m=model) for part in arguments), code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", str(model))
    assert model.read_bytes() == before


@pytest.mark.parametrize("output", ["", ".", "/"])
def test_a_path_that_names_no_file_is_a_file_error(model: Path, output: str) -> None:
    assert as_json("compile", model, "-o", output, code=1)["error"]["code"] == "E-FILE"


@pytest.mark.parametrize("command", [("run",), ("compile", "-o", "a.circlet"), ("inspect",)])
def test_the_most_memory_is_an_option(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "wide.tflite"
    path.write_bytes(growth.wide_results(2, 1 << 18))
    output = tmp_path / "a.circlet"
    words = [output if word == "a.circlet" else word for word in command]
    refused = as_json(*words, path, "--max-memory", "1M", code=1)["error"]
    assert refused["code"] == "E-LIMIT" and "--max-memory" in refused["fix"]
    assert not output.exists()
    as_json(*words, path, "--max-memory", "64MiB")


@pytest.mark.parametrize("size", ["", "0", "-1", "lots", "1.5G", "5Q"])
def test_a_most_memory_that_is_no_size_is_wrong_usage(size: str, model: Path) -> None:
    wrong = circlet("verify", model, "--max-memory", size)
    assert wrong.exit_code == 2 and "512M" in wrong.output


def test_files_to_write_are_named_alike() -> None:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        for option in command.params:
            assert ("-o" in option.opts) <= ("--output" in option.opts), name
