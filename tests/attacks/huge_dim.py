"""A shape of 2^31-1 in every dimension: more bytes than any integer type holds."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-LIMIT"


def make() -> bytes:
    tensors = [tensor("x", [2**31 - 1] * 8), tensor("y")]
    return encode(model(graph(tensors, [add(0, 0, 1)])))
