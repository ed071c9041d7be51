"""A dimension of -7."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    return encode(model(graph([tensor("x", [1, -7]), tensor("y")], [add(0, 0, 1)])))
