"""A constant whose buffer holds fewer bytes than its shape needs."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-FORMAT"


def make() -> bytes:
    tensors = [tensor("x"), tensor("weights", [1, 1000], buffer=1), tensor("y")]
    return encode(model(graph(tensors, [add(0, 1, 2)]), buffers=[{}, {"data": bytes(16)}]))
