"""Graphs that share one vector of tensors: work that would grow as n squared."""

from __future__ import annotations

from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema import Field, Schema, TableSpec
from tests.attacks.build import encode, graph, model, tensor

CODE = "E-LIMIT"
COUNT = 1000


class Sharing(Writer):
    """Writes one vector of tensors, which all graphs refer to."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.places: list[int] = []

    def _put(
        self, spec: TableSpec, field: Field, value: object, start: int, offsets: dict[int, int]
    ) -> None:
        if field.name == "tensors":
            self.places.append(start + offsets[field.slot])
        else:
            super()._put(spec, field, value, start, offsets)

    def _vector(self, spec: TableSpec, field: Field, value: object) -> int:
        start = super()._vector(spec, field, value)
        if field.name == "subgraphs":
            table = self.schema.tables["SubGraph"]
            shared = [tensor(str(index)) for index in range(COUNT)]
            target = super()._vector(table, table.fields["tensors"], shared)
            for place in self.places:
                self._refer(place, target)
        return start


def make() -> bytes:
    return encode(model(*(graph([tensor("x")], []) for _ in range(COUNT))), Sharing)
