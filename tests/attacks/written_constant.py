"""An operator that writes a constant, which lies in the read-only file."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    tensors = [tensor("x"), tensor("weights", buffer=1)]
    return encode(model(graph(tensors, [add(0, 0, 1)]), buffers=[{}, {"data": bytes(16)}]))
