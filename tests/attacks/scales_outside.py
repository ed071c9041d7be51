"""Block quantisation whose scales lie in tensor 99."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    blocks = {"table": "BlockwiseQuantization", "scales": 99, "block_size": 32}
    tensors = [tensor("x", quantization={"details": blocks}), tensor("y")]
    return encode(model(graph(tensors, [add(0, 0, 1)])))
