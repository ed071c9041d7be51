"""Files that say one thing once and refer to it from many places: tables, vectors and buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

import numpy as np

from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema import Field, Schema, TableSpec
from tests.fuzz.growth.parts import Parts, Values, amount, tensor

_FEW, _MANY = (2, 3, 10, 20), (50, 200, 1000)
_SMALL, _LARGE = (1, 4, 100), (1000, 10_000)


class Sharing(Writer):
    """Writes a mapping, list or text once, however many places of one depth hold it.

    Offsets point forward only, so a thing is written when all places that may refer to it are.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._waiting: dict[object, int] = {}
        self._writes: list[tuple[object, Callable[[], int]]] = []
        self._places: list[list[int]] = []
        self._held: list[object] = []

    def finish(self, root: str, values: Mapping[str, object]) -> bytearray:
        self._refer(0, self._table(self.schema.tables[root], values))
        for number, (key, write) in enumerate(self._writes):  # writing makes more of them
            del self._waiting[key]
            target = write()
            for at in self._places[number]:
                super()._refer(at, target)
        return self.out

    def _table(self, spec: TableSpec, values: Mapping[str, object]) -> int:
        return self._later((id(values), spec.name), values, partial(super()._table, spec, values))

    def _vector(self, spec: TableSpec, field: Field, value: object) -> int:
        write = partial(super()._vector, spec, field, value)
        return self._later((id(value), field.type), value, write)

    def _string(self, text: str) -> int:
        return self._later(text, text, partial(super()._string, text))

    def _refer(self, at: int, target: int) -> None:
        self._places[target].append(at)

    def _later(self, key: object, value: object, write: Callable[[], int]) -> int:
        """The number of what will be written; nothing else may get the id of a value that waits."""
        if key not in self._waiting:
            self._waiting[key] = len(self._writes)
            self._held.append(value)
            self._writes.append((key, write))
            self._places.append([])
        return self._waiting[key]


def make(random: Random) -> bytes:
    """A file of one of the forms below."""
    count, size = amount(random, _FEW, _MANY), amount(random, _SMALL, _LARGE)
    return random.choice(_FORMS)(random, count, size)


def _buffer(random: Random, count: int, size: int) -> bytes:
    """Constants of many types and shapes over one buffer; some need more than it has."""
    parts = Parts()
    parts.buffers.append({"data": random.randbytes(4 * size)})
    types = ("FLOAT32", "INT32", "INT8", "UINT8", "INT16", "BOOL", "FLOAT16", "INT64", "INT4")
    alike = random.random() < 0.5
    tensors = [tensor("x", shape=(1,))]
    for number in range(count):
        dtype = "FLOAT32" if alike else random.choice(types)
        shape = (size,) if alike or random.random() < 0.7 else (1, size, 1)
        tensors.append(tensor(f"c{number}", dtype, shape) | {"buffer": 1})
    made = [tensor(f"y{number}", "FLOAT32", (size,)) for number in range(count)]
    options: Values = {"table": "AddOptions"}
    operators = [parts.op("ADD", [0, n + 1], [count + 1 + n], options) for n in range(count)]
    outputs = [*range(count + 1, 2 * count + 1)]
    parts.graph(
        [*tensors, *made], operators, [0], outputs if random.random() < 0.5 else outputs[:1]
    )
    return parts.encode(random.choice((Writer, Sharing)))


def _buffer_tables(random: Random, count: int, size: int) -> bytes:
    """Many buffers that are one table, or many tables over one vector."""
    parts, data = Parts(), np.zeros(4 * size, np.uint8).tobytes()
    one: Values = {"data": data}
    bytes_of_one = [*data[:4096]]
    whole = random.random() < 0.5
    parts.buffers += [one if whole else {"data": bytes_of_one} for _ in range(count)]
    shape = (size,) if whole else (len(bytes_of_one) // 4,)
    tensors = [tensor("x", shape=shape), tensor("y", shape=shape)]
    tensors += [tensor(f"c{n}", shape=shape) | {"buffer": n + 1} for n in range(count)]
    operators = [parts.op("ADD", [0, 2 + random.randrange(count)], [1], {"table": "AddOptions"})]
    parts.graph(tensors, operators, [0], [1])
    return parts.encode(Sharing)


def _tensor_tables(random: Random, count: int, size: int) -> bytes:
    """Many tensors that are one table; operators read and write them by different numbers."""
    parts = Parts()
    one = tensor("x" * random.choice((1, 100)), shape=(size,))
    operators = [
        parts.op("ADD", [n, n], [n + 1], {"table": "AddOptions"})
        for n in range(min(count - 1, random.choice((1, 10, 1000))))
    ]
    parts.graph([one] * count, operators, [0], [max(1, len(operators))])
    return parts.encode(Sharing)


def _operator_tables(random: Random, count: int, size: int) -> bytes:
    """Many operators that are one table, and so write one tensor; or share a list of inputs."""
    parts = Parts()
    if random.random() < 0.3:
        one = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
        parts.graph([tensor("x"), tensor("y")], [one] * count, [0], [1])
        return parts.encode(Sharing)
    inputs = [0] * min(size, 1000)
    tensors = [tensor("x"), *(tensor(f"y{n}") for n in range(count))]
    operators = [{**parts.op("ADD_N", [0], [n + 1]), "inputs": inputs} for n in range(count)]
    parts.graph(tensors, operators, [0], [count])
    return parts.encode(Sharing)


def _graph_tables(random: Random, count: int, size: int) -> bytes:
    """Many graphs that are one table, or that share their tensors or operators."""
    parts = Parts()
    count = min(count, 1000)
    tensors = [tensor(f"t{n}") for n in range(1 + min(size, 300))]
    operators = [
        parts.op("ADD", [n, n], [n + 1], {"table": "AddOptions"}) for n in range(len(tensors) - 1)
    ]
    parts.graph(tensors, operators, [0], [len(tensors) - 1])
    first = parts.graphs[0]
    style = random.choice(("whole", "tensors", "operators", "both"))
    for number in range(count):
        shared = {name: first[name] for name in ("tensors", "operators") if style in (name, "both")}
        fresh = {name: [*items] for name, items in first.items() if isinstance(items, list)}
        parts.graphs.append(
            first if style == "whole" else {**fresh, "name": f"g{number}", **shared}
        )
    return parts.encode(Sharing)


def _quantisation(random: Random, count: int, size: int) -> bytes:
    """Many tensors that share a table of many scales, or a table of sparse storage."""
    parts = Parts()
    scales: Values = {"scale": [0.5] * size, "zero_point": [0] * size, "quantized_dimension": 0}
    dense: Values = {"format": "DENSE", "dense_size": size}
    indices: Values = {"table": "Int32Vector", "values": [0]}
    segments: Values = {"table": "Int32Vector", "values": [0, 1] + [1] * (size - 1)}
    stored: Values = {"format": "SPARSE_CSR", "array_segments": segments, "array_indices": indices}
    layout: Values = {"traversal_order": [0, 1], "dim_metadata": [dense, stored]}
    is_sparse = random.random() < 0.5
    more: Values = {"sparsity": layout} if is_sparse else {"quantization": scales}
    width = random.choice((1, 16, 4096)) if is_sparse else 1
    parts.buffers.append({"data": bytes(4 if is_sparse else size)})
    dtype = "FLOAT32" if is_sparse else "INT8"
    one = tensor("c", dtype, (size, width)) | {"buffer": 1, **more}
    tensors = [tensor("x", shape=(1,)), *({**one, "name": f"c{n}"} for n in range(count))]
    tensors += [tensor(f"y{n}", shape=(size, width)) for n in range(count)]
    kind = "ADD" if is_sparse else "DEQUANTIZE"
    operators = [
        parts.op(kind, [0, n + 1] if is_sparse else [n + 1], [count + 1 + n]) for n in range(count)
    ]
    parts.graph(tensors, operators, [0], [count + 1])
    return parts.encode(Sharing)


def _signatures(random: Random, count: int, size: int) -> bytes:
    """Many signatures that are one table, or of one list of entries."""
    parts = Parts()
    operator = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
    parts.graph([tensor("x"), tensor("y")], [operator], [0], [1])
    entry: Values = {"name": "x" * random.choice((1, 1000)), "tensor_index": 0}
    inputs = [entry] * size
    signature: Values = {"inputs": inputs, "outputs": inputs, "signature_key": "serve"}
    many = [{**signature, "signature_key": f"serve{n}"} for n in range(count)]
    same = random.random() < 0.5
    blobs = [{"name": f"m{n}", "buffer": 0} for n in range(count)]
    return parts.encode(
        Sharing, signature_defs=[signature] * count if same else many, metadata=blobs
    )


_FORMS: tuple[Callable[[Random, int, int], bytes], ...] = (
    *(_buffer, _buffer_tables, _tensor_tables, _operator_tables, _graph_tables),
    *(_quantisation, _signatures),
)
