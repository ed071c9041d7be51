"""Compressed weights whose codes stand for fewer elements than their shape needs."""

from __future__ import annotations

from circlet.formats import schema
from circlet.formats.flatbuffer_writer import Writer
from tests.attacks.build import graph, model, tensor

CODE = "E-FORMAT"
CODES = bytes([19, *[0] * 7, 3, *[0] * 7, 0x80, 0x80, 0x38])


def make() -> bytes:
    weights = tensor("w", [1 << 20], type="INT8", buffer=1, compression_type="HUFFMAN")
    values = model(graph([tensor("x"), weights, tensor("y")], []), buffers=[{}, {"data": CODES}])
    return bytes(Writer(schema.by_name("circle")).finish("Model", values))
