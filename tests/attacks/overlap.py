"""A constant that lies over the file's own tables: readable bytes, so harmless."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = ""


def make() -> bytes:
    tensors = [tensor("x"), tensor("weights", buffer=1), tensor("y")]
    over_tables = {"offset": 8, "size": 16}
    return encode(model(graph(tensors, [add(0, 1, 2)]), buffers=[{}, over_tables]))
