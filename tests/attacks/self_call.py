"""A WHILE whose body is the graph that holds it."""

from __future__ import annotations

from tests.attacks.build import encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    loop = {
        "opcode_index": 1,
        "inputs": [0],
        "outputs": [1],
        "builtin_options": {"table": "WhileOptions"},
    }
    return encode(model(graph([tensor("x"), tensor("y")], [loop])))
