"""A WHILE whose body is graph -5."""

from __future__ import annotations

from tests.attacks.build import encode, graph, model, tensor

CODE = "E-GRAPH"


def make() -> bytes:
    options = {"table": "WhileOptions", "body_subgraph_index": -5}
    loop = {"opcode_index": 1, "inputs": [0], "outputs": [1], "builtin_options": options}
    return encode(model(graph([tensor("x"), tensor("y")], [loop])))
