"""Three scales beside two zero points."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    quantization = {"scale": [1.0, 2.0, 3.0], "zero_point": [0, 0]}
    tensors = [tensor("x", quantization=quantization), tensor("y")]
    return encode(model(graph(tensors, [add(0, 0, 1)])))
