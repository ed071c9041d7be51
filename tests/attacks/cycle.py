"""Two operators that read each other's output."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    tensors = [tensor(name) for name in "xyz"]
    return encode(model(graph(tensors, [add(0, 2, 1), add(1, 1, 2)])))
