"""A union whose tag no schema knows."""

from __future__ import annotations

from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema import Field, TableSpec
from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


class Mistagging(Writer):
    """Writes 250 as the tag of every union."""

    def _enum_value(self, spec: TableSpec, field: Field, name: str) -> int:
        return 250 if field.kind == "union" else super()._enum_value(spec, field, name)


def make() -> bytes:
    return encode(model(graph([tensor("x"), tensor("y")], [add(0, 0, 1)])), Mistagging)
