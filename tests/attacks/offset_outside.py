"""A constant that lies behind the end of the file."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


def make() -> bytes:
    tensors = [tensor("x"), tensor("weights", buffer=1), tensor("y")]
    outside = {"offset": 2**40, "size": 16}
    return encode(model(graph(tensors, [add(0, 1, 2)]), buffers=[{}, outside]))
