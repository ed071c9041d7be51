"""A graph that nothing runs holds an operator that no pass could handle."""

from __future__ import annotations

from tests.attacks.build import Values, add, encode, graph, model, tensor

CODE = ""
RUNS = True


def make() -> bytes:
    composite: Values = {
        "opcode_index": 2,
        "inputs": [0],
        "outputs": [1, 2],
        "builtin_options2": {
            "table": "StableHLOCompositeOptions",
            "name": "spoilt",
            "decomposition_subgraph_index": 2,
        },
    }
    main = graph([tensor("x"), tensor("y")], [add(0, 0, 1)])
    unused = graph([tensor(name) for name in "xyz"], [composite], name="unused")
    inner = graph([tensor("a"), tensor("b")], [add(0, 0, 1)], name="inner")
    codes = [{}, {}, {"deprecated_builtin_code": 127, "builtin_code": 206}]
    return encode(model(main, unused, inner, operator_codes=codes))
