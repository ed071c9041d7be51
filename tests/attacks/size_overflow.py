"""A constant whose offset and size pass 2^64 in sum."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


def make() -> bytes:
    tensors = [tensor("x"), tensor("weights", buffer=1), tensor("y")]
    wrapping = {"offset": 2**64 - 8, "size": 2**64 - 8}
    return encode(model(graph(tensors, [add(0, 1, 2)]), buffers=[{}, wrapping]))
