"""An operator that reads tensor 2^31-1."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    return encode(model(graph([tensor("x"), tensor("y")], [add(0, 2**31 - 1, 1)])))
