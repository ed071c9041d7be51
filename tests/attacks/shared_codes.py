"""Many tensors whose compressed weights are the same bytes, each of which stands for elements."""

from __future__ import annotations

from circlet.formats import schema
from circlet.formats.flatbuffer_writer import Writer
from tests.attacks.build import graph, model, tensor

CODE = "E-LIMIT"
BITS = 1 << 19
CODES = (
    (19).to_bytes(8, "little")
    + BITS.to_bytes(8, "little")
    + bytes([0x80, 0x80, 0x20])
    + bytes(BITS // 8)
)


def make() -> bytes:
    shared = [
        tensor(f"w{i}", [BITS], type="INT8", buffer=1, compression_type="HUFFMAN")
        for i in range(4000)
    ]
    tensors = [tensor("x"), *shared, tensor("y")]
    values = model(graph(tensors, []), buffers=[{}, {"data": CODES}])
    return bytes(Writer(schema.by_name("circle")).finish("Model", values))
