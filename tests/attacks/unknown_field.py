"""A vtable longer than the schema's, with a field of unknown type in it."""

from __future__ import annotations

from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema import Field, Schema, TableSpec
from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


class Future(Writer):
    """Writes one field more than the schema of today has."""

    def __init__(self, today: Schema) -> None:
        fields = today.tables["Model"].fields
        new = {"from_the_future": Field("from_the_future", 30, "scalar", "int32")}
        tables = {**today.tables, "Model": TableSpec("Model", {**fields, **new})}
        super().__init__(Schema("tflite", b"TFL3", 3, tables, today.enums))


def make() -> bytes:
    values = model(graph([tensor("x"), tensor("y")], [add(0, 0, 1)]), from_the_future=1)
    return encode(values, Future)
