"""Networks of any size that each grow in one way, to see how opening them grows.

Every form takes a number of operators, or of what it is named after, and gives the bytes of a
.tflite file whose tensors are small: what opening it takes is not the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Op, Origin, Tensor
from circlet.ir.builder import Builder
from circlet.ops import NoAttrs
from circlet.ops.bits import BucketizeAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs

F32 = DType.FLOAT32
Form = Callable[[int], bytes]
_WIDTH = 4
_FEW = 64  # inputs of one operator that gathers, where there are many


def _file(b: Builder, *outputs: Tensor) -> bytes:
    return dumps(b.output(*outputs).model(), "tflite")


def _start() -> tuple[Builder, Tensor]:
    b = builder()
    return b, b.input("x", F32, (1, _WIDTH))


def _one(b: Builder) -> Tensor:
    return b.constant("one", np.ones(_WIDTH, np.float32))


def _gathered(b: Builder, tensors: list[Tensor]) -> Tensor:
    """The sum of all, over a tree of ADD_N."""
    while len(tensors) > 1:
        groups = [tensors[i : i + _FEW] for i in range(0, len(tensors), _FEW)]
        tensors = [b.op("ADD_N", group) if group[1:] else group[0] for group in groups]
    return tensors[0]


def chain(count: int) -> bytes:
    """Operators that each read the one before, in turn of kinds that fuse and that do not."""
    b, y = _start()
    one = _one(b)
    for index in range(count):
        y = b.op("SOFTMAX", [y]) if index % 8 == 7 else b.op("ADD", [y, one])
    return _file(b, y)


def pattern(count: int) -> bytes:
    """Normalisations one after the other, five operators each."""
    b = builder()
    y = b.input("x", F32, (8, 32))
    axes, least = (
        b.constant("axes", np.array([1], np.int32)),
        b.constant("e", np.full(1, 1e-3, np.float32)),
    )
    for _ in range(count // 5):
        mean = b.op("MEAN", [y, axes], ReducerAttrs(keep_dims=True))
        centred = b.op("SUB", [y, mean])
        square = b.op("MEAN", [b.op("MUL", [centred, centred]), axes], ReducerAttrs(keep_dims=True))
        y = b.op("MUL", [centred, b.op("RSQRT", [b.op("ADD", [square, least])])])
    return _file(b, y)


def alive(count: int) -> bytes:
    """Results that all stay alive until one operator late in the network joins them."""
    b, x = _start()
    made = [b.op("SOFTMAX", [x]) for _ in range(count)]
    return _file(b, b.op("CONCATENATION", made, ConcatenationAttrs(1)))


def alive_chain(count: int) -> bytes:
    """A chain whose results all stay alive: each is read again at the end."""
    b, y = _start()
    made = []
    for _ in range(count):
        y = b.op("SOFTMAX", [y])
        made.append(y)
    return _file(b, b.op("CONCATENATION", made, ConcatenationAttrs(1)))


def nested_lives(count: int) -> bytes:
    """Results that are read in the reverse order of their making, in many sizes."""
    b, x = builder(), None
    x = b.input("x", F32, (1, 64))
    made = []
    for index in range(count // 2):
        width = 1 + index % 61
        begin, size = np.array([0, 0], np.int32), np.array([1, width], np.int32)
        part = b.op("SLICE", [x, b.constant("begin", begin), b.constant("size", size)])
        made.append(b.op("SOFTMAX", [part]))
    axes = b.constant("axes", np.array([1], np.int32))
    y = b.op("SUM", [made.pop(), axes], ReducerAttrs(keep_dims=True))
    while made:
        total = b.op("SUM", [b.op("MUL", [made.pop(), y]), axes], ReducerAttrs(keep_dims=True))
        y = b.op("TANH", [total])
    return _file(b, y)


def fan_out(count: int) -> bytes:
    """One result that all operators read."""
    b, x = _start()
    hub = b.op("SOFTMAX", [x])
    return _file(b, _gathered(b, [b.op("SOFTMAX", [hub]) for _ in range(count)]))


def ladder(count: int) -> bytes:
    """Operators that each read the two before."""
    b, x = _start()
    y, z = x, b.op("SOFTMAX", [x])
    for _ in range(count):
        y, z = z, b.op("SQUARED_DIFFERENCE", [y, z])
    return _file(b, z)


def inputs(count: int) -> bytes:
    """Graph inputs."""
    b = builder()
    return _file(b, _gathered(b, [b.input(f"x{i}", F32, (1, _WIDTH)) for i in range(count)]))


def outputs(count: int) -> bytes:
    """Graph outputs."""
    b, x = _start()
    return _file(b, *(b.op("SOFTMAX", [x]) for _ in range(count)))


def constants(count: int) -> bytes:
    """Operators that each add a constant of their own."""
    b, y = _start()
    for index in range(count):
        y = b.op("ADD", [y, b.constant(f"c{index}", np.full(_WIDTH, index, np.float32))])
    return _file(b, y)


def unread(count: int) -> bytes:
    """Operators whose results nothing reads."""
    b, x = _start()
    for _ in range(count):
        b.op("SOFTMAX", [x])
    return _file(b, b.op("RELU", [x]))


def _convolutions(count: int, distinct: int) -> bytes:
    b = builder()
    y = b.input("x", F32, (1, 4, 4, 4))
    for index in range(count):
        window = 1 + index % distinct if distinct > 1 else 3
        height, width = 1 + window % 4, 1 + window // 4
        weights = np.full((4, height, width, 4), 0.01, np.float32)
        bias = b.constant(f"b{index}", np.full(4, index, np.float32))
        attrs = Conv2DAttrs(SAME_UPPER, (1, 1), activation="NONE")
        y = b.op("CONV_2D", [y, b.constant(f"w{index}", weights), bias], attrs)
    return _file(b, y)


def convolutions(count: int) -> bytes:
    """Convolutions that one kernel computes."""
    return _convolutions(count, 1)


def distinct_convolutions(count: int) -> bytes:
    """Convolutions no two of which have one window."""
    return _convolutions(count, count)


def distinct_sums(count: int) -> bytes:
    """Fused element-wise operators no two of which have one expression."""
    b, y = _start()
    one = _one(b)
    kinds = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "DIV", "SQUARED_DIFFERENCE")
    for index in range(count // 8):
        for _ in range(7):
            y = b.op(kinds[index % 7], [y, one])
            index //= 7
        y = b.op("SOFTMAX", [y])
    return _file(b, y)


def reshapes(count: int) -> bytes:
    """Changes of sizes in a row, and one operator in eight that keeps them apart."""
    b, y = _start()
    shapes = [(1, _WIDTH), (_WIDTH, 1), (2, 2)]
    sizes = [b.constant(f"sizes{i}", np.array(shape, np.int32)) for i, shape in enumerate(shapes)]
    for index in range(count):
        place = index % 3
        y = b.op("RESHAPE", [y, sizes[place]], ReshapeAttrs(shapes[place]))
        y = b.op("SOFTMAX", [y]) if index % 8 == 7 else y
    return _file(b, y)


def read_reshapes(count: int) -> bytes:
    """A chain of reshapes that give back their input, each of which another operator reads."""
    b, x = _start()
    sizes = b.constant("sizes", np.array([1, _WIDTH], np.int32))
    made = []
    for _ in range(count // 2):
        x = b.op("RESHAPE", [x, sizes], ReshapeAttrs((1, _WIDTH)))
        made.append(b.op("SOFTMAX", [x]))
    return _file(b, _gathered(b, made))


def views(count: int) -> bytes:
    """Slices of one result, all alive."""
    b = builder()
    x = b.op("SOFTMAX", [b.input("x", F32, (count, _WIDTH))])
    size = b.constant("size", np.array([1, _WIDTH], np.int32))
    begins = [b.constant(f"begin{i}", np.array([i, 0], np.int32)) for i in range(count)]
    return _file(b, _gathered(b, [b.op("SLICE", [x, begin, size]) for begin in begins]))


def split(count: int) -> bytes:
    """One SPLIT into parts, joined again."""
    b = builder()
    x = b.op("SOFTMAX", [b.input("x", F32, (count, _WIDTH))])
    axis = b.constant("axis", np.array(0, np.int32))
    parts = [b.tensor(f"part{i}", F32, (1, _WIDTH)) for i in range(count)]
    b.graph.tensors = [t for t in b.graph.tensors if t not in set(parts)]
    b.op_many("SPLIT", [axis, x], parts, SplitAttrs(count))
    made = [b.op("TANH", [part]) for part in parts]
    return _file(b, b.op("CONCATENATION", made, ConcatenationAttrs(0)))


def unpack(count: int) -> bytes:
    """One UNPACK into parts, and a PACK of them."""
    b = builder()
    x = b.op("SOFTMAX", [b.input("x", F32, (count, _WIDTH))])
    parts = [Tensor(f"part{i}", F32, (_WIDTH,)) for i in range(count)]
    b.op_many("UNPACK", [x], parts, UnpackAttrs(count, 0))
    return _file(b, b.op("PACK", parts, PackAttrs(count, 0)))


def concatenations(count: int) -> bytes:
    """A deep tree of joins, each of the one before and of one element more."""
    b = builder()
    x = b.op("SOFTMAX", [b.input("x", F32, (1, 1))])
    empty = b.constant("none", np.zeros((1, 0), np.float32))
    y = x
    for _ in range(count):
        y = b.op("CONCATENATION", [y, empty], ConcatenationAttrs(1))
    return _file(b, b.op("SOFTMAX", [y]))


def joins(count: int) -> bytes:
    """A balanced tree of joins."""
    b, x = _start()
    tensors = [b.op("SOFTMAX", [x]) for _ in range(count // 2)]
    while len(tensors) > 1:
        pairs = [tensors[i : i + 2] for i in range(0, len(tensors), 2)]
        tensors = [
            b.op("CONCATENATION", pair, ConcatenationAttrs(1)) if pair[1:] else pair[0]
            for pair in pairs
        ]
    return _file(b, tensors[0])


def add_n(count: int) -> bytes:
    """Inputs of ADD_N, 4,096 for each."""
    b, x = _start()
    made = [b.op("TANH", [x]) for _ in range(count)]
    sums = [b.op("ADD_N", made[i : i + 4096]) for i in range(0, count, 4096)]
    return _file(b, _gathered(b, sums))


def buckets(count: int) -> bytes:
    """Boundaries of one BUCKETIZE."""
    b, x = _start()
    attrs = BucketizeAttrs(tuple(float(i) for i in range(count)))
    return _file(b, b.op("BUCKETIZE", [x], attrs))


def sizes(count: int) -> bytes:
    """Reshapes to sizes that are computed from the one before."""
    b = builder()
    y = b.input("x", F32, (None, _WIDTH))
    for _ in range(count // 2):
        shape = b.op("SHAPE", [y], dtype=DType.INT32, shape=(2,))
        y = b.op("RESHAPE", [b.op("TANH", [y]), shape], ReshapeAttrs(), shape=(None, _WIDTH))
    return _file(b, y)


def changes(count: int) -> bytes:
    """Operators in turn that native code takes and that it does not."""
    b, y = _start()
    for _ in range(count // 2):
        y = b.op("ADD_N", [b.op("SOFTMAX", [y]), *[y] * 15])
    return _file(b, y)


def graphs(count: int) -> bytes:
    """Branches: an IF for each three operators."""
    flag, x = Tensor("flag", DType.BOOL, ()), Tensor("x", F32, (1, _WIDTH))
    main = Graph("main", [flag, x], [], [], [flag, x])
    made, y = [main], x
    for index in range(count // 3):
        regions = [_branch(index, kind) for kind in ("TANH", "RELU")]
        made += regions
        result = y.like(f"y{index}")
        op = Op("IF", [flag, y], [result], NoAttrs(), Origin.of(index, result.name))
        op.regions = regions
        main.ops.append(op)
        main.tensors.append(result)
        y = result
    main.outputs = [y]
    return dumps(Model(made), "tflite")


def _branch(index: int, kind: str) -> Graph:
    b = builder(f"{kind}{index}", first_id=index)
    return b.output(b.op(kind, [b.input("x", F32, (1, _WIDTH))])).graph


def loop_body(count: int) -> bytes:
    """Operators in the body of one loop of two turns."""
    flag = _loop_condition()
    b = builder("body")
    turn, y = b.input("turn", DType.INT32, ()), b.input("y", F32, (1, _WIDTH))
    for _ in range(count):
        y = b.op("SOFTMAX", [y])
    one = b.constant("one", np.array(1, np.int32))
    body = b.output(b.op("ADD", [turn, one]), y).graph
    first, x = Tensor("turn", DType.INT32, ()), Tensor("x", F32, (1, _WIDTH))
    results = [first.like("turns"), x.like("result")]
    op = Op("WHILE", [first, x], results, NoAttrs(), Origin.of(0, "loop"))
    op.regions = [flag, body]
    main = Graph("main", [first, x], results, [op], [first, x, *results])
    return dumps(Model([main, flag, body]), "tflite")


def _loop_condition() -> Graph:
    b = builder("condition")
    turn = b.input("turn", DType.INT32, ())
    b.input("y", F32, (1, _WIDTH))
    return b.output(b.op("LESS", [turn, b.constant("most", np.array(2, np.int32))])).graph


def tensors(count: int) -> bytes:
    """Tensors that nothing uses."""
    b, x = _start()
    y = b.op("RELU", [x])
    b.graph.tensors += [Tensor(f"t{i}", F32, (1, _WIDTH)) for i in range(count)]
    return _file(b, y)


FORMS: dict[str, Form] = {
    form.__name__: form
    for form in (
        *(chain, pattern, alive, alive_chain, nested_lives, fan_out, ladder, inputs, outputs),
        *(constants, unread, convolutions, distinct_convolutions, distinct_sums, reshapes),
        *(
            read_reshapes,
            views,
            split,
            unpack,
            concatenations,
            joins,
            add_n,
            buckets,
            sizes,
            changes,
        ),
        *(graphs, loop_body, tensors),
    )
}
