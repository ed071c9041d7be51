"""Outputs are written in the form that a file's name says, or not at all."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import InputError
from circlet.formats.outputs import Output, check_output_suffix, output_bytes

FLOATS = np.array([[0.1, np.inf], [-2.5, np.nan]], np.float32)


def written(name: str, *arrays: np.ndarray) -> bytes:
    outputs = [Output(f"out/{number}", array) for number, array in enumerate(arrays)]
    return output_bytes(Path(name), outputs)


def test_npy_and_npz_are_numpys_own() -> None:
    np.testing.assert_array_equal(np.load(io.BytesIO(written("o.npy", FLOATS))), FLOATS)
    archive = np.load(io.BytesIO(written("o.npz", FLOATS, FLOATS.T)))
    np.testing.assert_array_equal(archive["out_1"], FLOATS.T)
    assert json.loads(archive["names.json"]) == {"out_0": "out/0", "out_1": "out/1"}


def test_csv_has_a_row_for_each_row_of_the_last_axis() -> None:
    cube = np.arange(8, dtype=np.int8).reshape(2, 2, 2)
    assert written("o.csv", cube) == b"0,1\n2,3\n4,5\n6,7\n"
    read = np.loadtxt(io.BytesIO(written("o.CSV", FLOATS)), np.float32, delimiter=",")
    np.testing.assert_array_equal(read, FLOATS)
    assert written("o.csv", np.array([b'a,"b', b"\xff"], object)) == b'"a,""b",\\xff\n'


def test_json_says_what_the_elements_are() -> None:
    output = Output("scores", FLOATS, (0.5,), (3,))
    data = json.loads(output_bytes(Path("o.json"), [output]))["outputs"]
    assert data == [
        {
            "name": "scores",
            "dtype": "float32",
            "shape": [2, 2],
            "scale": [0.5],
            "zero_point": [3],
            "values": [[0.1, None], [-2.5, None]],
        }
    ]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (np.array([True, False]), [True, False]),
        (np.array(2**62, np.int64), 2**62),
        (np.array([1 + 2j], np.complex64), [[1.0, 2.0]]),
        (np.array([b"word"], object), ["word"]),
        (np.zeros((0, 2), np.float32), []),
    ],
    ids=["bool", "int64", "complex", "string", "empty"],
)
def test_json_takes_every_type(array: np.ndarray, values: object) -> None:
    assert json.loads(written("o.json", array))["outputs"][0]["values"] == values


def test_raw_has_the_bytes() -> None:
    assert written("o.raw", FLOATS.astype(">f4")) == FLOATS.astype("<f4").tobytes()
    assert written("o.bin", np.array([1, 2], np.uint8)) == b"\1\2"


@pytest.mark.parametrize("name", ["o.zip", "o", "o.txt", "o.npz.gz"])
def test_other_endings_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"\.npz, \.npy, \.json, \.csv, \.raw"):
        check_output_suffix(Path(name))


def test_what_a_form_cannot_hold_is_refused() -> None:
    for name in ("o.csv", "o.npy", "o.raw"):
        with pytest.raises(InputError, match="holds one output"):
            written(name, FLOATS, FLOATS)
    with pytest.raises(InputError, match="no fixed size"):
        written("o.raw", np.array([b"word"], object))
    with pytest.raises(InputError, match="zero byte"):
        written("o.npy", np.array([b"word\0"], object))
