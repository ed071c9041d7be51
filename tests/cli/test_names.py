"""Names of files reach no terminal, message, log or path as they are."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.artifact.values import Value
from circlet.backends.cpu.emit import EmittedKernel, emit_unit
from circlet.backends.cpu.lowering import Kernel
from circlet.commands.run import write_outputs
from circlet.errors import GraphError, UnsupportedOp, UnsupportedOpsError
from circlet.escape import escaped
from circlet.formats import dumps, save
from circlet.formats.arrays import Wanted, read_array
from circlet.formats.entry_names import entry_names
from circlet.ir import DType, Signature
from circlet.ops.build import builder
from tests.cli.call import circlet
from tests.corpora import corpus

CONTROLS = "\u202e\u2066 \u200b\x7f\x85\u2028\u0000"
HOSTILE = "\x1b]0;t\x07\x1b[2J\x9b31m\r\nE-OK\n       forged */ ??/" + CONTROLS
COMMANDS = (
    ("run", "{model}", "--placement", "--labels", "{labels}"),
    ("run", "{model}", "--backend", "reference", "--strict", "--json"),
    ("run", "{artifact}"),
    ("run", "{model}", "--input", "{labels}"),
    ("run", "{model}", "--signature", HOSTILE.replace("\0", "")),
    ("run", "{unsupported}"),
    ("compile", "{model}", "-o", "{folder}/c.circlet"),
    ("dump", "{model}"),
    ("dump", "{model}", "--text"),
    ("dump", "{model}", "--json"),
    ("inspect", "{model}", "--operators", "--tensors"),
    ("inspect", "{unsupported}"),
    ("inspect", "{model}", "--json"),
    ("inspect", "{artifact}"),
    ("verify", "{model}"),
    ("verify", "{unsupported}"),
    ("verify", "{broken}"),
    ("convert", "{model}", "{folder}/m.circle"),
    ("inspect", "{model}", "--\x1b[2J"),
    ("\x1b[2J",),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Networks whose every name is hostile, in a folder that is named so too."""
    folder = tmp_path_factory.mktemp("names") / "f\x1b[2J\n\u202e"
    folder.mkdir()
    b = builder()
    x = b.input(HOSTILE, DType.FLOAT32, (1, 3))
    b.output(b.op("RELU", [x], name=f"{HOSTILE}y"))
    model = b.model()
    model.description = HOSTILE
    model.metadata[HOSTILE] = np.zeros(4, np.uint8)
    main = model.main
    main.name = HOSTILE
    model.signatures.append(
        Signature(HOSTILE, main, {HOSTILE: main.inputs[0]}, {HOSTILE: main.outputs[0]})
    )
    (folder / "m.tflite").write_bytes(dumps(model, "tflite"))
    (folder / "labels.txt").write_text("a\x1b[2J\nb\u202e\nc\x9b\n", encoding="utf-8")
    main.ops[0].kind, main.ops[0].custom_code = "CUSTOM", HOSTILE
    (folder / "u.tflite").write_bytes(dumps(model, "tflite"))
    broken = builder()
    t = broken.input(HOSTILE, DType.FLOAT32, (1, 3))
    broken.output(broken.op("RELU", [t], name=f"{HOSTILE}z"))
    model = broken.model()
    model.main.outputs[0].shape = (5, 7)
    save(model, folder / "b.tflite")
    names = {"model": "m.tflite", "unsupported": "u.tflite", "broken": "b.tflite"}
    found = {key: str(folder / name) for key, name in names.items()}
    found |= {"folder": str(folder), "labels": str(folder / "labels.txt")}
    found["artifact"] = str(folder / "a.circlet")
    assert circlet("compile", found["model"], "-o", found["artifact"]).exit_code == 0
    return found


def is_plain(text: str) -> bool:
    """Whether a terminal shows exactly this, line by line."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: escaped(" ".join(command[:3])))
def test_no_command_prints_a_name_as_it_is(command: tuple[str, ...], files: dict[str, str]) -> None:
    done = circlet(*(part.format(**files) for part in command))
    assert done.output and is_plain(done.output), repr(done.output)
    assert not any(line.startswith(("E-OK", "       forged")) for line in done.output.split("\n"))
    if "--json" in command:
        json.loads(done.stdout)


@pytest.mark.parametrize("command", ["run", "dump", "inspect", "verify"])
def test_no_command_prints_the_names_of_the_corpus(command: str) -> None:
    done = circlet(command, corpus("hostile/dos_names.tflite"))
    assert done.exit_code == 0 and is_plain(done.output)


def test_messages_are_escaped_and_their_parts_are_not() -> None:
    error = GraphError(HOSTILE, where=HOSTILE, why=[HOSTILE, "second"], fix=HOSTILE)
    assert is_plain(str(error)) and len(str(error).split("\n")) == 5
    assert error.where == HOSTILE and error.as_dict()["where"] == HOSTILE
    entries = [UnsupportedOp(HOSTILE, "CUSTOM:x", 1, "f32", "none")] * 2
    assert len(str(UnsupportedOpsError(entries)).split("\n")) == 4


def test_logs_hold_no_name_as_it_is(
    files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "circlet"):
        Session(files["model"], cache=False, level="O2")
    assert caplog.records and all(is_plain(record.getMessage()) for record in caplog.records)


def test_names_end_no_comment_in_generated_code() -> None:
    kernel = Kernel("relu", "relu.h", ())
    text = emit_unit([EmittedKernel(kernel, (HOSTILE,))])
    (comment,) = (line for line in text.split("\n") if "E-OK" in line)
    assert is_plain(text) and comment.count("*/") == 1 and "?" not in comment
    assert "\\" not in comment


@pytest.mark.parametrize("name", ["plain", "a/b\\c", "π", "π\u200d", HOSTILE, "\ud800"])
def test_escaping_again_changes_nothing(name: str) -> None:
    assert escaped(name).isprintable()
    assert escaped(escaped(name)) == escaped(name)


def test_entries_are_safe_and_apart() -> None:
    names = ["../../etc/x", "A", "a", "con", "NUL.txt", "", ".", "..", "a_b", "a/b", "x" * 300]
    names += ["x" * 301, "-rf", "Ä", "C:\\x", HOSTILE, "names", "plain.name-1", "a..b"]
    found = entry_names(names)
    assert len({entry.upper() for entry in found}) == len(names)
    for name, entry in zip(names, found, strict=True):
        assert entry.isascii() and 0 < len(entry) <= 100 and entry[0] not in ".-"
        assert not set(entry) & set('/\\:*?"<>|\0') and ".." not in entry, name
        assert entry.partition(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL"}
    assert dict(zip(names, found, strict=True))["plain.name-1"] == "plain.name-1"
    assert dict(zip(names, found, strict=True))["a_b"] == "a_b"


def test_outputs_are_written_under_safe_names_with_a_map(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    names = ["../../escaped", "sum", "../../ESCAPED"]
    values = [Value(name, "float32", (2,)) for name in names]
    arrays = [np.full(2, number, np.float32) for number in range(3)]
    write_outputs(out, values, arrays)
    with zipfile.ZipFile(out) as archive:
        entries = archive.namelist()
        known = json.loads(archive.read("names.json"))
    assert not any("/" in entry or ".." in entry for entry in entries)
    assert list(known.values()) == names
    with np.load(out) as loaded:
        for entry, array in zip(known, arrays, strict=True):
            np.testing.assert_array_equal(loaded[entry], array)
    wanted = Wanted("../../escaped", "float32", (2,))
    np.testing.assert_array_equal(read_array(out, wanted), arrays[0])


def test_plain_names_need_no_map(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    write_outputs(out, [Value("sum", "float32", (1,))], [np.zeros(1, np.float32)])
    assert zipfile.ZipFile(out).namelist() == ["sum.npy"]


def test_an_output_named_like_a_path_stays_in_its_archive(tmp_path: Path) -> None:
    model, out = corpus("hostile/dos_names_path.tflite"), tmp_path / "out.npz"
    assert circlet("run", model, "--output", out).exit_code == 0
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / "in")
    assert all(path.parent == tmp_path / "in" for path in (tmp_path / "in").rglob("*"))
