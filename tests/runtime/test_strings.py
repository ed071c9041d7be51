"""Tensors of strings: from numpy and text files, through operators, to the user's eyes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from circlet import Interpreter, Session
from circlet.errors import FormatError, InputError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Op, Origin, Tensor
from circlet.ops.opdef import NoAttrs
from circlet.ops.shape import ReshapeAttrs
from tests.cli.call import circlet
from tests.strings import packed


def network(constant: np.ndarray) -> bytes:
    """[2, 3] strings in; out, [3, 2] of the same and whether each equals the constant."""
    given = Tensor("words", DType.STRING, (2, 3))
    known = Tensor("known", DType.STRING, (1,), data=constant)
    turned = Tensor("turned", DType.STRING, (3, 2))
    same = Tensor("same", DType.BOOL, (2, 3))
    ops = [
        Op("RESHAPE", [given], [turned], ReshapeAttrs((3, 2)), Origin.of(0, "turned")),
        Op("EQUAL", [given, known], [same], NoAttrs(), Origin.of(1, "same")),
    ]
    return dumps(Model([Graph("main", [given], [turned, same], ops)]), "tflite")


WORDS = np.array([["yes", b"no", "yé"], ["", "no", b"\0x"]], object)
BYTES = [[b"yes", b"no", "yé".encode()], [b"", b"no", b"\0x"]]


def test_strings_flow_through_a_network() -> None:
    turned, same = Session(network(packed(b"no"))).run([WORDS]).values()
    assert turned.tolist() == np.array(BYTES, object).reshape(3, 2).tolist()
    assert same.tolist() == [[False, True, False], [False, True, False]]


def test_placement_says_why_strings_are_not_native() -> None:
    rows = Session(network(packed(b"no"))).placement
    assert {row["backend"] for row in rows} == {"reference"}
    assert "strings" in str(rows[0]["refused"])


def test_numpy_string_arrays_are_taken_and_numbers_are_not() -> None:
    session = Session(network(packed(b"no")))
    turned, _ = session.run([np.full((2, 3), b"ab")]).values()
    assert set(turned.flat) == {b"ab"}
    with pytest.raises(InputError, match="not an array of strings"):
        session.run([np.zeros((2, 3), np.float32)])


@pytest.mark.parametrize(
    "damaged",
    [
        packed(b"no", b"yes"),
        packed(b"no")[:6],
        np.frombuffer(struct.pack("<3i", 1, 12, 99), np.uint8),
        np.frombuffer(struct.pack("<3i", 1, 14, 12) + b"no", np.uint8),
        np.frombuffer(struct.pack("<3i", -1, 12, 12), np.uint8),
        np.frombuffer(struct.pack("<3i", 2**31 - 1, 12, 12), np.uint8),
    ],
)
def test_damaged_string_constant_is_refused(damaged: np.ndarray) -> None:
    with pytest.raises(FormatError, match="string constant"):
        Session(network(damaged)).run([WORDS])


def test_interpreter_takes_and_gives_bytes_as_litert_does() -> None:
    interpreter = Interpreter(model_content=network(packed(b"no")))
    interpreter.allocate_tensors()
    given, (turned, _) = interpreter.get_input_details()[0], interpreter.get_output_details()
    assert given["dtype"] is np.bytes_
    interpreter.set_tensor(given["index"], WORDS)
    interpreter.invoke()
    result = interpreter.get_tensor(turned["index"])
    assert result.dtype == object
    assert result.reshape(2, 3).tolist() == BYTES


def test_command_reads_lines_and_prints_strings(tmp_path: Path) -> None:
    model, lines, output = tmp_path / "m.tflite", tmp_path / "words.txt", tmp_path / "out.npz"
    model.write_bytes(network(packed(b"no")))
    lines.write_bytes(b"a\nno\n[b]\n\nno\nc\n")
    result = circlet("run", model, "--input", lines, "--output", output)
    assert result.exit_code == 0, result.output
    assert "[b]" in result.output
    with np.load(output) as written:
        assert written["turned"].tolist() == [[b"a", b"no"], [b"[b]", b""], [b"no", b"c"]]


def test_text_file_of_another_length_is_refused(tmp_path: Path) -> None:
    model, lines = tmp_path / "m.tflite", tmp_path / "words.txt"
    model.write_bytes(network(packed(b"no")))
    lines.write_bytes(b"a\n")
    result = circlet("run", model, "--input", lines)
    assert result.exit_code != 0
    assert "1 line;" in result.output
