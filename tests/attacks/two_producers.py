"""Two operators that write one tensor."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    return encode(model(graph([tensor("x"), tensor("y")], [add(0, 0, 1), add(0, 0, 1)])))
