"""50 000 offsets to one tensor: much work out of a small file."""

from __future__ import annotations

import struct

from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema import Field, TableSpec
from tests.attacks.build import encode, graph, model, tensor

CODE = "E-LIMIT"
COUNT = 50_000


class Aliasing(Writer):
    """Writes a vector of tensors as so many offsets to the first of them."""

    def _vector(self, spec: TableSpec, field: Field, value: object) -> int:
        if field.name != "tensors" or not isinstance(value, list):
            return super()._vector(spec, field, value)
        self._pad(4)
        start = len(self.out)
        self.out += struct.pack("<I", COUNT) + bytes(4 * COUNT)
        target = self._table(self.schema.tables["Tensor"], value[0])
        for place in range(start + 4, start + 4 + 4 * COUNT, 4):
            self._refer(place, target)
        return start


def make() -> bytes:
    values = model(graph([tensor("x" * 100)], [], inputs=[0], outputs=[0]))
    return encode(values, Aliasing)
