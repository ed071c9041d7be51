"""A WHILE whose condition is always true."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    loop = {
        "opcode_index": 1,
        "inputs": [0],
        "outputs": [1],
        "builtin_options": {
            "table": "WhileOptions",
            "cond_subgraph_index": 1,
            "body_subgraph_index": 2,
        },
    }
    flag = tensor("always", [1], type="BOOL", buffer=1)
    return encode(
        model(
            graph([tensor("x"), tensor("y")], [loop]),
            graph([tensor("given"), flag], [], name="condition"),
            graph([tensor("before"), tensor("after")], [add(0, 0, 1)], name="body"),
            buffers=[{}, {"data": b"\x01"}],
        )
    )
