"""Networks of a few kilobytes that ask for much: by calls, by folding, by storage and by sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ir.graph import Sparsity
from circlet.ops.build import builder
from circlet.ops.composite import CompositeAttrs
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.layout import ConcatenationAttrs

FLOAT = DType.FLOAT32


def stored(b: Builder, *others: Graph) -> bytes:
    return dumps(Model([b.build(), *others]), "tflite")


def _entry(name: str, size: int | None = 1) -> tuple[Builder, Tensor, Tensor]:
    b = builder(name)
    return b, b.input("flag", DType.BOOL, (1,)), b.input("x", FLOAT, (size,))


def _call(b: Builder, kind: str, flag: Tensor, x: Tensor, callees: Sequence[Graph]) -> Tensor:
    """An op of a kind over (flag, x) that runs graphs of such operands; its last result."""
    attrs = CompositeAttrs("some.thing") if kind == "STABLEHLO_COMPOSITE" else None
    given = [flag, flag, x] if kind == "IF" else [flag, x]
    results = [flag.like("kept"), Tensor("made", FLOAT, x.shape)][-1 if kind != "WHILE" else 0 :]
    made = b.op_many(kind, list(given), results, attrs)
    b.graph.ops[-1].regions = list(callees)
    return made[-1]


def nested(kinds: Sequence[str], depth: int, calls: int = 2) -> bytes:
    """Graphs that each call the next so often, by operators of the kinds in turn."""
    b, _, x = _entry("innermost")
    callee = b.output(b.op("NEG", [x], name="negated")).build()
    others = [callee]
    for level in range(depth):
        b, flag, x = _entry(f"level {level}")
        kind = kinds[level % len(kinds)]
        callees = [callee] * (2 if kind == "IF" else 1)
        if kind == "WHILE":
            callees = [_stop(), _body(callee)]
            others += callees
        for _ in range(calls):
            x = _call(b, kind, flag, x, callees)
        callee = b.output(x).build()
        others.insert(0, callee)
    return dumps(Model(others), "tflite")


def _stop() -> Graph:
    """A condition that does not hold."""
    b, _, _ = _entry("condition")
    return b.output(b.constant("never", np.array([False]))).build()


def _body(callee: Graph) -> Graph:
    """A loop's body that calls a graph."""
    b, flag, x = _entry("body")
    return b.output(flag, _call(b, "STABLEHLO_COMPOSITE", flag, x, [callee])).build()


def many_callers(count: int, ops: int) -> bytes:
    """One graph of many operators that is called by many."""
    b, flag, x = _entry("callee")
    for _ in range(ops):
        x = b.op("NEG", [x])
    callee = b.output(x).build()
    b, flag, x = _entry("main")
    for _ in range(count):
        x = _call(b, "IF", flag, x, [callee, callee])
    return stored(b.output(x), callee)


def many_sizes(depth: int) -> bytes:
    """Graphs that call the next with two sizes of operands each."""
    b, _, x = _entry("innermost", None)
    axis = b.constant("axis", np.array([0], np.int32))
    callee = b.output(b.op("SUM", [x, axis], name="sum")).build()
    others = [callee]
    for level in range(depth):
        b, flag, x = _entry(f"level {level}", None)
        longer = b.op(
            "CONCATENATION",
            [x, b.constant("more", np.zeros(1 << level, np.float32))],
            ConcatenationAttrs(0),
        )
        sums = [
            b.op_many("IF", [flag, flag, t], [Tensor("made", FLOAT, ())])[0] for t in (x, longer)
        ]
        for op in b.graph.ops:
            if op.kind == "IF":
                op.regions = [callee, callee]
        callee = b.output(b.op("ADD", sums)).build()
        others.insert(0, callee)
    main = others[0]
    main.inputs[1].shape = (1,)
    return dumps(Model(others), "tflite")


def copies_of_constants(count: int, size: int) -> bytes:
    """Each of many operators over one constant would become a constant of its own."""
    b = builder()
    x = b.input("x", FLOAT, (1,))
    table = b.constant("table", np.ones(size, np.float32))
    begin, one = b.constant("begin", np.zeros(1, np.int32)), b.constant("one", np.ones(1, np.int32))
    for _ in range(6):
        table = b.op("CONCATENATION", [table] * 4, ConcatenationAttrs(0))
    for _ in range(count):
        copied = b.op("ABS", [table])
        x = b.op("ADD", [x, b.op("SLICE", [copied, begin, one])])
    return stored(b.output(x))


def outer_product(size: int) -> bytes:
    """Two rows of constants that broadcast to a square."""
    b = builder()
    x = b.input("x", FLOAT, (size,))
    row = b.constant("row", np.ones((1, size), np.float32))
    column = b.constant("column", np.ones((size, 1), np.float32))
    return stored(b.output(b.op("ADD", [x, b.op("ADD", [row, column])])))


def sparse(count: int, size: int) -> bytes:
    """Fully connected layers whose square weights store one element each."""
    b = builder()
    rows = depth = size
    x = b.input("x", FLOAT, (1, depth))
    for index in range(count):
        weights = Tensor(f"w{index}", FLOAT, (rows, depth), data=np.zeros(4, np.uint8))
        segments = (0, *(1,) * rows)
        row: dict[str, object] = {"format": "SPARSE_CSR", "dense_size": depth}
        row["array_segments"] = {"table": "Uint8Vector", "values": segments}
        row["array_indices"] = {"table": "Uint8Vector", "values": (0,)}
        every: dict[str, object] = {"format": "DENSE", "dense_size": rows}
        weights.sparsity = Sparsity([0, 1], [], [every, row])
        b.graph.add_tensor(weights)
        x = b.op("FULLY_CONNECTED", [x, weights, None])
    return stored(b.output(x))


def wide_results(count: int, elements: int, kind: str = "outputs") -> bytes:
    """Many large arrays: outputs, inputs, or what lives in between."""
    b = builder()
    made = [b.input(f"x{i}", FLOAT, (elements if kind == "inputs" else 1,)) for i in range(count)]
    if kind != "inputs":
        size = b.constant("size", np.array([elements], np.int32))
        made = [b.op("BROADCAST_TO", [x, size]) for x in made]
    if kind == "outputs":
        return stored(b.output(*made))
    begin, one = b.constant("begin", np.zeros(1, np.int32)), b.constant("one", np.ones(1, np.int32))
    parts = [b.op("SLICE", [x, begin, one]) for x in made]
    return stored(b.output(b.op("CONCATENATION", parts, ConcatenationAttrs(0))))


def wide_steps(elements: int) -> bytes:
    """A sum of bytes for which numpy would take far more than its operands have."""
    b, quant = builder(), Quantization.per_tensor(0.5, 3)
    x, size = (
        b.input("x", DType.INT8, (1,), quant),
        b.constant("size", np.array([elements], np.int32)),
    )
    wide = b.op("BROADCAST_TO", [x, size], quant=quant)
    total = b.op("ADD", [wide, wide], quant=Quantization.per_tensor(1.0, -3))
    begin, one = b.constant("begin", np.zeros(1, np.int32)), b.constant("one", np.ones(1, np.int32))
    return stored(b.output(b.op("SLICE", [total, begin, one], quant=total.quant)))


def given_size() -> bytes:
    """An array whose size the caller gives."""
    b = builder()
    size = b.input("size", DType.INT32, (1,))
    return stored(b.output(b.op("FILL", [size, b.constant("one", np.float32(1))], name="filled")))


def sparse_bytes(filters: int, window: int, channels: int) -> bytes:
    """A convolution of bytes whose weights store one element."""
    b, quant = builder(), Quantization.per_tensor(0.1)
    shape = (filters, window, window, channels)
    weights = Tensor("w", DType.INT8, shape, quant, data=np.zeros(4, np.uint8))
    one = {"table": "Uint8Vector", "values": (0, 1)}, {"table": "Uint8Vector", "values": (0,)}
    names = ("format", "dense_size", "array_segments", "array_indices")
    dims = [dict(zip(names, ("SPARSE_CSR", size, *one), strict=True)) for size in shape]
    weights.sparsity = Sparsity([0, 1, 2, 3], [], dims)
    b.graph.add_tensor(weights)
    x = b.input("x", DType.INT8, (1, 8, 8, channels), quant)
    return stored(b.output(b.op("CONV_2D", [x, weights, None], Conv2DAttrs(), quant=quant)))
