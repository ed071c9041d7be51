"""Files with very many of one thing: inputs, outputs, operators, dimensions, entries, graphs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from tests.fuzz.growth.parts import Parts, Values, amount, tensor

_FEW, _MANY = (0, 1, 2, 3, 9, 17, 33), (100, 255, 256, 257, 300, 400, 1000)
_MOST = (2000, 5000, 8192)
_LONG = (32_767, 32_768, 65_535, 65_536, 65_537)


def make(random: Random) -> bytes:
    """A file of one of the forms below; lists of numbers are cheap, and may be longer."""
    count = amount(random, _FEW, _MANY, _MOST)
    form = random.choice((*_TABLES, *_LISTS))
    if form in _LISTS and random.random() < 0.1:
        count = random.choice(_LONG)
    return form(random, count)


def _plain(parts: Parts, **more: object) -> bytes:
    operator = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
    parts.graphs.insert(0, {})
    parts.graphs[0] = parts.graph([tensor("x"), tensor("y")], [operator], [0], [1], "main")
    parts.graphs.pop()
    return parts.encode(**more)


def _inputs(random: Random, count: int) -> bytes:
    """One operator of many operands: inputs of the network, or one of them again and again."""
    parts, kind = Parts(), random.choice(("ADD_N", "CONCATENATION", "PACK"))
    table: Values = {"ADD_N": "AddNOptions", "PACK": "PackOptions"}
    options: Values = {"table": table.get(kind, "ConcatenationOptions")}
    if kind == "PACK":
        options["values_count"] = count
    shape = {"ADD_N": [4], "PACK": [count, 4]}.get(kind, [4 * count])
    given = [0] * count if random.random() < 0.3 else [*range(count)]
    tensors = [*(tensor(f"x{n}") for n in range(max(count, 1))), tensor("y", shape=shape)]
    operator = parts.op(kind, given, [len(tensors) - 1], options)
    parts.graph(tensors, [operator], [*range(len(tensors) - 1)], [len(tensors) - 1])
    return parts.encode()


def _outputs(random: Random, count: int) -> bytes:
    """One operator of many results, all of them outputs or one."""
    parts = Parts()
    made = [tensor(f"y{n}", shape=[1] if n % 2 else [1, 1]) for n in range(count)]
    is_split = random.random() < 0.5
    if is_split:
        made = [tensor(f"y{n}", shape=[1, 2]) for n in range(count)]
    tensors = [tensor("x", shape=[count, 2]), parts.constant("axis", np.array(0, np.int32)), *made]
    results = [*range(2, count + 2)]
    if is_split:
        operator = parts.op(
            "SPLIT", [1, 0], results, {"table": "SplitOptions", "num_splits": count}
        )
    else:
        tensors[2:] = [tensor(f"y{n}", shape=[2]) for n in range(count)]
        operator = parts.op("UNPACK", [0], results, {"table": "UnpackOptions", "num": count})
    parts.graph(tensors, [operator], [0], results if random.random() < 0.7 else results[-1:])
    return parts.encode()


def _chain(random: Random, count: int) -> bytes:
    """Operators one after the other; each may read an earlier result, and all may be outputs."""
    parts = Parts()
    kinds = random.choice((("ADD",), ("RELU",), ("ADD", "MUL", "RELU", "TANH", "SUB")))
    reach = random.choice((1, 1, 5, max(count, 1)))
    operators = []
    for number in range(count):
        kind = random.choice(kinds)
        earlier = [number, max(0, number - random.randrange(reach))]
        operators.append(
            parts.op(kind, earlier[: 1 + (kind in ("ADD", "MUL", "SUB"))], [number + 1])
        )
    tensors = [tensor(f"t{n}", shape=[random.choice((4, 4, 1))]) for n in range(count + 1)]
    if random.random() < 0.8:
        tensors = [tensor(f"t{n}") for n in range(count + 1)]
    outputs = [*range(1, count + 1)] if random.random() < 0.5 else [count]
    parts.graph(tensors, operators, [0], outputs)
    return parts.encode()


def _alive(random: Random, count: int) -> bytes:
    """Operators side by side whose results one operator reads in the end."""
    parts = Parts()
    sizes = [random.choice((4, 4, 400)) for _ in range(count)]
    inputs = [tensor("x", shape=[1]), tensor("y", shape=[sum(sizes)])]
    constants = [parts.constant(f"c{size}", np.ones(size, np.float32)) for size in (4, 400)]
    tensors = [*inputs, *constants, *(tensor(f"t{n}", shape=[s]) for n, s in enumerate(sizes))]
    operators = [parts.op("ADD", [0, 2 + (size == 400)], [4 + n]) for n, size in enumerate(sizes)]
    made = [*range(4, 4 + count)]
    operators.append(parts.op("CONCATENATION", made, [1], {"table": "ConcatenationOptions"}))
    parts.graph(tensors, operators, [0], [1])
    return parts.encode()


def _tensors(random: Random, count: int) -> bytes:
    """Tensors that nothing uses, constants among them."""
    parts = Parts()
    spare = [tensor(f"t{n}") for n in range(count)]
    if random.random() < 0.5:
        spare = [parts.constant(f"c{n}", np.zeros(1, np.int8)) for n in range(count)]
    operator = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
    parts.graph([tensor("x"), tensor("y"), *spare], [operator], [0], [1])
    return parts.encode()


def _ends(random: Random, count: int) -> bytes:
    """Networks that are given, or give, one tensor many times, or many that nothing computes."""
    parts = Parts()
    operator = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
    tensors = [tensor("x"), tensor("y"), *(tensor(f"t{n}") for n in range(count))]
    inputs = random.choice(([0], [0] * max(count, 1), [0, *range(2, count + 2)]))
    outputs = random.choice(([1], [1] * count, [0] * count, [1, *range(2, count + 2)]))
    parts.graph(tensors, [operator], inputs, outputs)
    return parts.encode()


def _rank(random: Random, count: int) -> bytes:
    """Tensors of many dimensions, of size one or more, known or not."""
    parts = Parts()
    kind = random.choice(("ADD", "RELU", "TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "TILE", "SUM"))
    sizes = [random.choice((1, 1, 1, 2)) for _ in range(count)]
    more = {"shape_signature": [-1] * count} if random.random() < 0.3 else {}
    tensors = [tensor(name, shape=sizes) | more for name in ("x", "y")]
    tensors.append(parts.constant("numbers", np.arange(count, dtype=np.int32)))
    inputs = [0] if kind == "RELU" else [0, 0] if kind == "ADD" else [0, 2]
    parts.graph(tensors, [parts.op(kind, inputs, [1])], [0], [1])
    return parts.encode()


def _attribute(random: Random, count: int) -> bytes:
    """Options of long lists."""
    parts = Parts()
    numbers = sorted(random.uniform(-10, 10) for _ in range(count))
    options: dict[str, Values] = {
        "BUCKETIZE": {"table": "BucketizeOptions", "boundaries": numbers},
        "SQUEEZE": {"table": "SqueezeOptions", "squeeze_dims": [0] * count},
        "RESHAPE": {"table": "ReshapeOptions", "new_shape": [1] * count},
    }
    kind = random.choice([*options])
    made = tensor("y", "INT32" if kind == "BUCKETIZE" else "FLOAT32", [1])
    tensors = [tensor("x", shape=[1] * random.choice((1, 4))), made]
    parts.graph(tensors, [parts.op(kind, [0], [1], options[kind])], [0], [1])
    return parts.encode()


def _entries(random: Random, count: int) -> bytes:
    """Metadata, signatures and their entries, operator codes and buffers."""
    parts, style = Parts(), random.randrange(5)
    if style == 0:
        blobs = [{"name": f"m{n}", "buffer": 0} for n in range(count)]
        return _plain(parts, metadata=blobs)
    if style == 1:
        entries = [{"name": f"e{n}", "tensor_index": n % 2} for n in range(count)]
        more = {"inputs": entries, "outputs": entries, "signature_key": "serve"}
        return _plain(parts, signature_defs=[more])
    if style == 2:
        keys = [{"signature_key": f"s{n}", "subgraph_index": 0} for n in range(count)]
        return _plain(parts, signature_defs=keys)
    if style == 3:
        parts.codes += [{"deprecated_builtin_code": n % 100} for n in range(count)]
        return _plain(parts)
    parts.buffers += [{"data": [n % 256]} for n in range(count)]
    return _plain(parts, description="d" * count)


def _graphs(random: Random, count: int) -> bytes:
    """Graphs that nothing calls, or that one graph calls one after the other."""
    parts, count = Parts(), min(count, 1000)
    names = [tensor("x"), *(tensor(f"y{n}") for n in range(count))]
    calls = [
        parts.op(
            "STABLEHLO_COMPOSITE",
            [n],
            [n + 1],
            {"table": "StableHLOCompositeOptions", "decomposition_subgraph_index": n + 1},
        )
        for n in range(count)
    ]
    is_called = random.random() < 0.5 and count > 0
    first = calls if is_called else [parts.op("ADD", [0, 0], [1])]
    parts.graph(names if is_called else [tensor("x"), tensor("y")], first, [0], [len(first)])
    for _ in range(count):
        operator = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
        parts.graph([tensor("x"), tensor("y")], [operator], [0], [1])
    return parts.encode()


def _scales(random: Random, count: int) -> bytes:
    """Quantisation by very many channels."""
    parts = Parts()
    scales: Values = {"scale": [0.5] * count, "zero_point": [0] * count}
    scales["quantized_dimension"] = random.choice((0, 1, 7))
    weights = parts.constant("w", np.zeros((count, 2), np.int8)) | {"quantization": scales}
    quantised = {"quantization": {"scale": [0.5], "zero_point": [0]}}
    ends = [tensor("x", "INT8", [1, 2]), tensor("y", "INT8", [1, count])]
    options: Values = {"table": "FullyConnectedOptions"}
    operator = parts.op("FULLY_CONNECTED", [0, 2, -1], [1], options)
    parts.graph([end | quantised for end in ends] + [weights], [operator], [0], [1])
    return parts.encode()


Form = Callable[[Random, int], bytes]
_TABLES: tuple[Form, ...] = (
    *(_inputs, _outputs, _chain, _alive, _tensors, _ends, _entries, _graphs),
)
_LISTS: tuple[Form, ...] = (_rank, _attribute, _scales)
