"""An operator that writes the graph's input."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    return encode(model(graph([tensor("x"), tensor("y")], [add(1, 1, 0)])))
