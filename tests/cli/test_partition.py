"""`circlet partition`: ONE's .part files in, parts and .conn files out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.commands.connected import run_connected
from circlet.errors import FormatError
from circlet.formats import load, save
from circlet.formats.part_files import read_part_file
from circlet.ir import DType, Model
from circlet.ir.file_operators import file_operators
from circlet.ops.build import builder
from circlet.options import Options
from tests import corpora
from tests.cli.call import as_json, circlet

O0 = Options(level="O0", backends=("reference",))
CHECK = ("--check", "--backend", "reference")
PART = """\
[partition]
backends=cpu,acl_cl
default=cpu
comply=opcode

[OPCODE]
DIV=acl_cl
"""
NETWORKS = (
    "mnist-8.onnx",
    "kws_dscnn_int8.tflite",
    "resnet8_cifar10_float.tflite",
    "norm.tflite",
    "planestrike_tf.tflite",
)


def normalised() -> Model:
    """(x - mean) / (deviation + 1) * x, as instance normalisation is written."""
    b = builder()
    x = b.input("Input", DType.FLOAT32, (1, 4))
    y = b.op("SUB", [x, b.constant("mean", np.full(1, 0.5, np.float32))], name="Sub")
    d = b.op(
        "ADD", [b.op("ABS", [x], name="Abs"), b.constant("one", np.ones(1, np.float32))], name="Add"
    )
    return b.output(b.op("MUL", [b.op("DIV", [y, d], name="Div"), x], name="Mul")).model()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    save(normalised(), tmp_path / "net.circle")
    (tmp_path / "net.part").write_text(PART)
    return tmp_path / "net.circle", tmp_path / "net.part"


@pytest.mark.smoke
def test_parts_and_connection_are_as_one_writes_them(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    report = as_json("partition", *files, folder)
    names = ["net.00001_cpu.circle", "net.00002_acl_cl.circle", "net.00003_cpu.circle"]
    assert [row["file"] for row in report["parts"]] == names
    assert json.loads((folder / "net.conn.json").read_text()) == {
        "source": {"file": "net.circle", "inputs": ["Input"], "outputs": ["Mul"]},
        "parts": [
            {"file": names[0], "inputs": ["Input"], "outputs": ["Sub", "Add"]},
            {"file": names[1], "inputs": ["Sub", "Add"], "outputs": ["Div"]},
            {"file": names[2], "inputs": ["Div", "Input"], "outputs": ["Mul"]},
        ],
    }
    lines = (folder / "net.conn.ini").read_text().splitlines()
    assert lines[:4] == ["[source]", "file=net.circle", "i1=Input", "o1=Mul"]
    assert lines[5:9] == ["[models]", *(f"m{n}={name}" for n, name in enumerate(names, 1))]
    assert lines[-5:] == [f"[{names[2]}]", f"file={names[2]}", "i1=Div", "i2=Input", "o1=Mul"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*names, "net.conn.ini", "net.conn.json"]
    )


def test_parts_in_their_order_give_the_bits_of_the_whole(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32)
    as_json("partition", *files, tmp_path)
    got = run_connected(tmp_path / "net.conn.json", {"Input": x}, O0)
    wanted = Session.of(files[0], O0).run([x])
    assert list(got) == ["Mul"] and got["Mul"].tobytes() == wanted["Mul"].tobytes()


def test_operators_keep_their_origin(files: tuple[Path, Path], tmp_path: Path) -> None:
    as_json("partition", *files, tmp_path)
    part = load(tmp_path / "net.00003_cpu.circle").main.ops
    assert [op.origin for op in part] == [load(files[0]).main.ops[-1].origin]


@corpora.each("name", NETWORKS, ("mnist-8.onnx", "norm.tflite"))
def test_every_second_operator_elsewhere_changes_no_bit(name: str, tmp_path: Path) -> None:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx", reason="it reads .onnx files")
    path = corpora.corpus(f"models/{name}")
    ops = load(path).main.ops
    odd = dict.fromkeys(op.name for op in ops[1::2] if "=" not in op.name)
    lines = "".join(f"{op}=b\n" for op in odd)
    part = tmp_path / "x.part"
    part.write_text(f"[partition]\nbackends=a,b\ndefault=a\ncomply=opname\n\n[OPNAME]\n{lines}")
    report = as_json("partition", path, part, tmp_path / "parts", *CHECK)
    assert report["is_identical"] and not report["unused"]
    assert sum(row["ops"] for row in report["parts"]) >= len(file_operators(ops))
    assert {row["group"] for row in report["parts"]} == {"a", "b"}


def test_options_take_the_place_of_what_the_file_says(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--groups", "npu,acl_cl", "--default", "npu")
    report = as_json("partition", *files, tmp_path / "work", *options)
    assert [row["group"] for row in report["parts"]] == ["npu", "acl_cl", "npu"]
    assert circlet("partition", *files, tmp_path / "work", "--default", "acl_cl").exit_code == 0


def test_an_underscore_is_another_default(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text(PART + "_=acl_cl\nNIX=cpu\n")
    report = as_json("partition", *files, tmp_path / "work")
    assert [row["ops"] for row in report["parts"]] == [5]
    assert report["unused"] == ["NIX"]
    assert "no operator follows the rules for NIX" in circlet("partition", *files, tmp_path).stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no section",
        "[partition]\n",
        "[partition]\nbackends=a\n",
        "[partition]\nbackends=a\ndefault=b\n",
        "[partition]\nbackends=../a\ndefault=../a\n",
        "[partition]\nbackends=a\ndefault=a\ncomply=magic\n",
        "[partition]\nbackends=a\ndefault=a\n[OPCODE]\nADD=b\n",
        "[partition]\nbackends=a\ndefault=a\n[OPCODE]\nADD=a\nADD=a\n",
    ],
)
def test_a_file_that_groups_nothing_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.part").write_text(text)
    with pytest.raises(FormatError, match=r"no \.part file"):
        read_part_file(tmp_path / "x.part")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"source": 1, "parts": []}',
        '{"source": {"file": "x", "inputs": [], "outputs": ["y"]}, "parts": []}',
        '{"source": {"file": "x", "inputs": [], "outputs": []}, "parts": '
        '[{"file": "../x.circle", "inputs": [], "outputs": []}]}',
    ],
)
def test_a_connection_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.conn.json").write_text(text)
    with pytest.raises(FormatError):
        run_connected(tmp_path / "x.conn.json", {}, O0)


def test_names_that_files_cannot_share_are_made_to(tmp_path: Path) -> None:
    b = builder()
    x = b.input("same", DType.FLOAT32, (2,))
    for kind in ("ABS", "TANH", "NEG"):
        x = b.op(kind, [x], name="same")
    x.name = "line\nbreak"
    save(b.output(x).model(), tmp_path / "x.circle")
    (tmp_path / "x.part").write_text(PART.replace("DIV", "TANH"))
    report = as_json("partition", tmp_path / "x.circle", tmp_path / "x.part", tmp_path, *CHECK)
    crossing = [name for row in report["parts"] for name in row["outputs"]]
    assert report["is_identical"] and len({"same", *crossing}) == 4


def test_state_is_not_shared_between_files(tmp_path: Path) -> None:
    path = corpora.corpus("models/microwakeword_v2_vad.tflite")
    (tmp_path / "x.part").write_text(PART.replace("DIV", "ASSIGN_VARIABLE"))
    error = as_json("partition", path, tmp_path / "x.part", tmp_path / "work", code=1)["error"]
    assert (error["code"], "state" in error["what"]) == ("E-INPUT", True)
    assert not (tmp_path / "work").exists()
