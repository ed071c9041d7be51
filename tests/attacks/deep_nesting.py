"""A thousand graphs, each of which calls the next."""

from __future__ import annotations

from tests.attacks.build import Values, add, encode, graph, model, tensor

CODE = "E-LIMIT"


def call(callee: int) -> Values:
    options = {
        "table": "WhileOptions",
        "cond_subgraph_index": callee,
        "body_subgraph_index": callee,
    }
    return {"opcode_index": 1, "inputs": [0], "outputs": [1], "builtin_options": options}


def make() -> bytes:
    graphs = [graph([tensor("x"), tensor("y")], [call(index + 1)]) for index in range(999)]
    last = graph([tensor("x"), tensor("y")], [add(0, 0, 1)])
    return encode(model(*graphs, last))
