"""A variable of floats that starts as bytes."""

from __future__ import annotations

from tests.attacks.build import Values, encode, graph, model, tensor

CODE = "E-GRAPH"
RUNS = True


def handle(output: int) -> Values:
    return {
        "opcode_index": 1,
        "inputs": [],
        "outputs": [output],
        "builtin_options": {"table": "VarHandleOptions", "shared_name": "memory"},
    }


def make() -> bytes:
    once: Values = {
        "opcode_index": 0,
        "inputs": [],
        "outputs": [],
        "builtin_options": {"table": "CallOnceOptions", "init_subgraph_index": 1},
    }
    read: Values = {"opcode_index": 2, "inputs": [0], "outputs": [1]}
    assign: Values = {"opcode_index": 3, "inputs": [0, 1], "outputs": []}
    resource: Values = {"name": "handle", "type": "RESOURCE"}
    start = tensor("start", [1, 4], type="INT8", buffer=1)
    codes = [
        {"deprecated_builtin_code": 127, "builtin_code": code} for code in (129, 142, 143, 144)
    ]
    main = graph([resource, tensor("y")], [once, handle(0), read], inputs=[])
    begin = graph([resource, start], [handle(0), assign], inputs=[], outputs=[], name="begin")
    return encode(model(main, begin, operator_codes=codes, buffers=[{}, {"data": bytes(4)}]))
