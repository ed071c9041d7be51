"""Endless WHILEs in the bodies of endless WHILEs: their turns are counted together."""

from __future__ import annotations

from tests.attacks.build import Values, add, encode, graph, model, tensor

CODE = "E-LIMIT"
RUNS = True
DEPTH = 10


def loop(body: int) -> Values:
    options = {
        "table": "WhileOptions",
        "cond_subgraph_index": DEPTH + 1,
        "body_subgraph_index": body,
    }
    return {"opcode_index": 1, "inputs": [0], "outputs": [1], "builtin_options": options}


def make() -> bytes:
    graphs = [
        graph([tensor(f"in{level}"), tensor(f"out{level}")], [loop(level + 1)], name=f"g{level}")
        for level in range(DEPTH)
    ]
    innermost = graph([tensor("before"), tensor("after")], [add(0, 0, 1)], name="innermost")
    flag = tensor("always", [1], type="BOOL", buffer=1)
    condition = graph([tensor("given"), flag], [], name="condition")
    return encode(model(*graphs, innermost, condition, buffers=[{}, {"data": b"\x01"}]))
