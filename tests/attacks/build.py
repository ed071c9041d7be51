"""Small files to be spoilt: a network of ADD operators as table values, and their bytes."""

from __future__ import annotations

import struct

from circlet.formats import schema
from circlet.formats.flatbuffer_writer import Writer

Values = dict[str, object]


def tensor(name: str, shape: list[int] | None = None, **more: object) -> Values:
    return {"name": name, "shape": shape or [1, 4], "type": "FLOAT32", **more}


def add(first: int, second: int, output: int) -> Values:
    return {
        "inputs": [first, second],
        "outputs": [output],
        "builtin_options": {"table": "AddOptions"},
    }


def graph(tensors: list[Values], operators: list[Values], **more: object) -> Values:
    ends: Values = {"inputs": [0], "outputs": [len(tensors) - 1]}
    return {"tensors": tensors, "operators": operators, "name": "main", **ends, **more}


def model(*graphs: Values, **more: object) -> Values:
    return {
        "version": 3,
        "operator_codes": [{}, {"deprecated_builtin_code": 119, "builtin_code": 119}],
        "subgraphs": list(graphs),
        "buffers": [{}],
        **more,
    }


def encode(values: Values, writer: type[Writer] = Writer) -> bytes:
    return bytes(writer(schema.by_name("tflite")).finish("Model", values))


def small() -> bytes:
    """A well-formed network of one ADD."""
    return encode(model(graph([tensor("x"), tensor("y")], [add(0, 0, 1)])))


def with_u32(data: bytes, at: int, value: int) -> bytes:
    """The bytes with one unsigned number replaced."""
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


def find_vector(data: bytes, length: int, following: bytes) -> int:
    """Place of the length of the vector that starts with these bytes."""
    return data.index(struct.pack("<I", length) + following)
