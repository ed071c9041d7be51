"""A table of operator origins that claims 2^32-1 entries."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


def make() -> bytes:
    names = ("ONE_source_table", "ONE_op_table")
    return encode(
        model(
            graph([tensor("x"), tensor("y")], [add(0, 0, 1)]),
            buffers=[{}, {"data": b"\xff" * 4}],
            metadata=[{"name": name, "buffer": 1} for name in names],
        )
    )
