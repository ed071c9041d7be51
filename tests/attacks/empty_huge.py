"""A constant of no elements, whose other sizes are more than an array can have."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-LIMIT"


def make() -> bytes:
    tensors = [tensor("x"), tensor("empty", [2**30, 2**30, 2**30, 0], buffer=1), tensor("y")]
    return encode(model(graph(tensors, [add(0, 1, 2)]), buffers=[{}, {"data": bytes(4)}]))
