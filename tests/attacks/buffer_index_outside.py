"""A tensor of buffer 2^32-1."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


def make() -> bytes:
    tensors = [tensor("x", buffer=2**32 - 1), tensor("y")]
    return encode(model(graph(tensors, [add(0, 0, 1)])))
