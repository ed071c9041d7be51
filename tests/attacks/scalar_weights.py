"""Weights that are a single number, without a word on how many dimensions they have."""

from __future__ import annotations

from tests.attacks.build import encode, graph, model, tensor

CODE = "E-GRAPH"
RUNS = True


def make() -> bytes:
    layer = {
        "opcode_index": 1,
        "inputs": [0, 1, -1],
        "outputs": [2],
        "builtin_options": {"table": "FullyConnectedOptions"},
    }
    weights = {"name": "weights", "type": "FLOAT32", "buffer": 1}
    return encode(
        model(
            graph([tensor("x"), weights, tensor("y")], [layer]),
            operator_codes=[{}, {"deprecated_builtin_code": 9, "builtin_code": 9}],
            buffers=[{}, {"data": bytes(4)}],
        )
    )
