"""Small files that ask for much: nesting, sharing, folding, counts, and names that are no names."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from circlet.formats import schema
from tests.attacks.build import Values, add, encode, graph, model, tensor

_CODES = schema.by_name("tflite").enums["BuiltinOperator"].values
_KINDS = ("ADD", "IF", "TILE", "CONCATENATION", "ADD_N", "PACK", "EQUAL")
_NAMES = (
    *("", " ", ".", "..", "../../x", "/etc/x", "con", "a\n[E-OK] b", "\x1b[2J", "\x9b31m", "\x07"),
    *("\u202ex", "\u2066", "\ufeff", "\u2028", "*/", "??/", "\\\n", "%s%n", "{0}", "[bold]", ":a:"),
    *("x" * 300, "é", "e\u0301", "A", "a", "\U000e0041", "\x00", "\x7f\x85", '"', "'"),
)


def grow(random: Random) -> bytes:
    """A file of one of the kinds; the same for the same state of the generator."""
    makers: tuple[Callable[[Random], Values], ...] = (_nested, _shared, _folded, _counted, _named)
    return encode(random.choice(makers)(random))


def _size(random: Random, most: int) -> int:
    """Mostly small, now and then up to the most."""
    return random.randint(1, max(1, int(most ** random.random())))


def _op(kind: str, inputs: list[int], outputs: list[int], **options: object) -> Values:
    table = {"table": f"{_table(kind)}Options", **options}
    index = _KINDS.index(kind)
    values: Values = {"opcode_index": index, "inputs": inputs, "outputs": outputs}
    return {**values, "builtin_options": table}


def _table(kind: str) -> str:
    return {"ADD_N": "AddN"}.get(kind) or "".join(map(str.capitalize, kind.split("_")))


def _model(*graphs: Values, **more: object) -> Values:
    codes = [
        {"deprecated_builtin_code": min(_CODES[kind], 127), "builtin_code": _CODES[kind]}
        for kind in _KINDS
    ]
    return {**model(*graphs, **more), "operator_codes": codes}


def _nested(random: Random) -> Values:
    """Graphs that call later ones, several times each, and sometimes any."""
    depth, calls = _size(random, 40), random.choice((1, 2, 2, 3))
    graphs = [_calling(random, level, depth, calls) for level in range(depth)]
    last = graph([tensor("x", [1]), tensor("y", [1])], [add(0, 0, 1)])
    return _model(*graphs, last)


def _calling(random: Random, level: int, depth: int, calls: int) -> Values:
    """A graph of one number in and one out, which asks for other graphs one after the other."""
    tensors = [tensor(f"t{number}", [1]) for number in range(calls + 1)]
    tensors.append(tensor("c", [1], type="BOOL"))
    operators = [_op("EQUAL", [0, 0], [calls + 1])]
    for number in range(calls):
        first, second = (random.randint(level + 1, depth) for _ in range(2))
        if random.random() < 0.05:
            second = random.randint(0, depth)
        ends = {"then_subgraph_index": first, "else_subgraph_index": second}
        operators.append(_op("IF", [calls + 1, number], [number + 1], **ends))
    return {**graph(tensors, operators), "outputs": [calls]}


def _shared(random: Random) -> Values:
    """Tensors over a few buffers, operators over a few tensors, outputs that repeat."""
    count, elements = _size(random, 400), _size(random, 4096)
    data = np.zeros(elements, np.float32).tobytes()
    tensors = [tensor("x", [elements])]
    tensors += [tensor(f"w{i}", [elements], buffer=random.choice((1, 1, 2))) for i in range(count)]
    operators = []
    for number in range(_size(random, 300)):
        tensors.append(tensor(f"t{number}", [elements]))
        first, second = (random.randrange(len(tensors) - 1) for _ in range(2))
        operators.append(add(first, second, len(tensors) - 1))
    outputs = [random.randrange(count + 1, len(tensors)) for _ in range(_size(random, 100))]
    own = {**graph(tensors, operators), "outputs": outputs}
    return _model(own, buffers=[{}, {"data": data}, {"data": data[: random.choice((-4, None))]}])


def _folded(random: Random) -> Values:
    """Constants that each operator makes larger."""
    factor, rank = random.choice((2, 4, 16, 1024)), random.choice((1, 2, 3))
    tensors: list[Values] = [tensor("seed", [1] * rank, buffer=1)]
    tensors.append(tensor("times", [rank], type="INT32", buffer=2))
    operators, shape, newest = [], [1] * rank, 0
    for number in range(_size(random, 24)):
        kind = random.choice(("TILE", "CONCATENATION", "ADD"))
        if kind == "TILE":
            shape = [size * factor for size in shape]
            operands, options = [newest, 1], {}
        elif kind == "CONCATENATION":
            shape = [shape[0] * 2, *shape[1:]]
            operands, options = [newest, newest], {"axis": 0}
        else:
            operands, options = [newest, newest], {}
        tensors.append(tensor(f"t{number}", [min(size, 2**31 - 1) for size in shape]))
        newest = len(tensors) - 1
        operators.append(_op(kind, operands, [newest], **options))
    ends = {"inputs": [], "outputs": [newest]}
    times = np.full(rank, factor, np.int32).tobytes()
    buffers = [{}, {"data": np.ones(1, np.float32).tobytes()}, {"data": times}]
    return _model({**graph(tensors, operators), **ends}, buffers=buffers)


def _counted(random: Random) -> Values:
    """Very many of something: inputs, outputs, operators, dimensions, tensors, signatures."""
    kinds = ("inputs", "outputs", "operands", "operators", "rank", "tensors", "signatures", "codes")
    what, count = random.choice(kinds), _size(random, 3000)
    many = list(range(count))
    if what == "inputs":
        return _model({**graph([tensor("x")] * count, []), "inputs": many, "outputs": [0]})
    if what == "outputs":
        adds = [add(0, 0, number + 1) for number in many]
        tensors = [tensor(f"t{number}") for number in range(count + 1)]
        return _model({**graph(tensors, adds), "outputs": [number + 1 for number in many]})
    if what == "operands":
        kind = random.choice(("ADD_N", "PACK", "CONCATENATION"))
        operator = _op(
            kind, [0] * count, [1], **({"values_count": count} if kind == "PACK" else {})
        )
        return _model(graph([tensor("x"), tensor("y")], [operator]))
    if what == "operators":
        chain = [add(number, number, number + 1) for number in many]
        return _model(graph([tensor(f"t{number}") for number in range(count + 1)], chain))
    if what == "rank":
        shape = [1] * (count % 80)
        return _model(graph([tensor("x", shape), tensor("y", shape)], [add(0, 0, 1)]))
    main = graph([tensor("x"), tensor("y")], [add(0, 0, 1)])
    if what == "tensors":
        unused = [tensor(f"u{number}") for number in many]
        return _model({**main, "tensors": [tensor("x"), tensor("y"), *unused], "outputs": [1]})
    if what == "codes":
        return {**_model(main), "operator_codes": [{}] * count}
    return _model(main, signature_defs=[_signature(f"s{number}") for number in many])


def _signature(key: str) -> Values:
    ends = {
        "inputs": [{"name": key, "tensor_index": 0}],
        "outputs": [{"name": key, "tensor_index": 1}],
    }
    return {**ends, "signature_key": key, "subgraph_index": 0}


def _named(random: Random) -> Values:
    """Names of every sort in every place, some twice."""

    def name() -> str:
        return random.choice(_NAMES) + random.choice(("", "", random.choice(_NAMES)))

    count = _size(random, 20)
    tensors = [tensor(name()) for _ in range(count + 1)]
    operators = [add(number, number, number + 1) for number in range(count)]
    main = {**graph(tensors, operators), "name": name()}
    main["outputs"] = [random.randint(1, count) for _ in range(_size(random, 4))]
    signature = {**_signature(name()), "signature_key": name()}
    metadata = [{"name": name(), "buffer": 0} for _ in range(_size(random, 3))]
    return _model(main, description=name(), signature_defs=[signature], metadata=metadata)
