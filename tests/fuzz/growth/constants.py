"""Constants that grow: chains of operators over constants, each larger than what it reads."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from circlet.errors import CircletError
from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder

_LENGTHS = (1, 2, 4, 8, 20, 60)
_FACTORS = (1, 2, 2, 3, 8, 100, 4096)
_MOST_ELEMENTS = 1 << 31
Step = Callable[[Builder, Random, Tensor], Tensor]


def make(random: Random) -> bytes:
    """A network whose only input meets the end of a chain, or many of its links."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1,))
    last, links = _start(b, random), []
    for _ in range(random.choice(_LENGTHS)):
        count = len(b.graph.ops)
        try:
            found = random.choice(STEPS)(b, random, last)
        except (CircletError, OverflowError):  # no operator of such sizes, or no such sizes
            continue
        if found.elements > _MOST_ELEMENTS:
            _take_back(b, count)
            continue
        last = found
        links.append(found)
    keep = [last] if random.random() < 0.6 else links[-8:] or [last]
    made = [b.op("ADD", [x, link]) for link in keep if link.dtype is DType.FLOAT32]
    b.output(*made or [b.op("RELU", [x])])
    if random.random() < 0.2:
        for tensor in (t for t in b.graph.tensors if not t.is_constant and t is not x):
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)
    return dumps(b.model(), "tflite")


def _take_back(b: Builder, count: int) -> None:
    """Remove all operators but so many: files cannot say all sizes that operators would make."""
    made = {tensor for op in b.graph.ops[count:] for tensor in op.outputs}
    del b.graph.ops[count:]
    b.graph.tensors = [tensor for tensor in b.graph.tensors if tensor not in made]


def _start(b: Builder, random: Random) -> Tensor:
    rank = random.choice((0, 1, 1, 2, 3, 4))
    return _constant(b, np.ones([random.choice((1, 2, 5)) for _ in range(rank)], np.float32))


def _constant(b: Builder, data: object, dtype: type[np.generic] | None = None) -> Tensor:
    return b.constant(f"c{len(b.graph.tensors)}", np.asarray(data, dtype))


def _tile(b: Builder, random: Random, t: Tensor) -> Tensor:
    factors = [random.choice(_FACTORS) for _ in t.shape]
    return b.op("TILE", [t, _constant(b, factors, np.int32)])


def _fill(b: Builder, random: Random, t: Tensor) -> Tensor:
    sizes = [random.choice(_FACTORS) for _ in range(random.choice((1, 2, 3)))]
    return b.op("FILL", [_constant(b, sizes, np.int32), _constant(b, 1, np.float32)])


def _broadcast(b: Builder, random: Random, t: Tensor) -> Tensor:
    sizes = [random.choice(_FACTORS) if size in (1, None) else size for size in t.shape]
    front = [random.choice(_FACTORS) for _ in range(random.choice((0, 1)))]
    return b.op("BROADCAST_TO", [t, _constant(b, front + sizes, np.int32)])


def _range(b: Builder, random: Random, t: Tensor) -> Tensor:
    limit, delta = random.choice((10.0, 1e4, 1e6, 1e9, -1.0)), random.choice((1.0, 0.01, -1.0, 0.0))
    numbers = (0.0, limit, delta)
    return b.op("RANGE", [_constant(b, number, np.float32) for number in numbers])


def _pad(b: Builder, random: Random, t: Tensor) -> Tensor:
    amounts = [[random.choice((0, 1, 100)), random.choice((0, 1, 10_000))] for _ in t.shape]
    return b.op("PAD", [t, _constant(b, np.array(amounts, np.int32).reshape(-1, 2))])


def _join(b: Builder, random: Random, t: Tensor) -> Tensor:
    return b.op("CONCATENATION", [t] * random.choice((2, 3, 16, 200)))


def _pack(b: Builder, random: Random, t: Tensor) -> Tensor:
    from circlet.ops.split import PackAttrs

    count = random.choice((2, 16, 200))
    return b.op("PACK", [t] * count, PackAttrs(values_count=count))


def _flatten(b: Builder, random: Random, t: Tensor) -> Tensor:
    sizes = random.choice(([-1], [-1, 1], [1, -1], [-1, 1, 1, 1]))
    return b.op("RESHAPE", [t, _constant(b, sizes, np.int32)])


def _outer(b: Builder, random: Random, t: Tensor) -> Tensor:
    """Every element with every other: a square of the size."""
    column = b.op("RESHAPE", [t, _constant(b, [-1, 1], np.int32)])
    row = b.op("RESHAPE", [t, _constant(b, [1, -1], np.int32)])
    return b.op(random.choice(("MUL", "ADD", "MAXIMUM")), [column, row])


def _diagonal(b: Builder, random: Random, t: Tensor) -> Tensor:
    return b.op("MATRIX_DIAG", [t])


def _gather(b: Builder, random: Random, t: Tensor) -> Tensor:
    return b.op("GATHER", [t, _constant(b, np.zeros(random.choice((1, 100, 5000)), np.int32))])


def _one_hot(b: Builder, random: Random, t: Tensor) -> Tensor:
    places = _constant(b, np.zeros(random.choice((1, 100, 5000)), np.int32))
    numbers = [_constant(b, number, np.float32) for number in (1.0, 0.0)]
    depth = _constant(b, random.choice((1, 1000, 1 << 20)), np.int32)
    return b.op("ONE_HOT", [places, depth, *numbers])


def _alike(b: Builder, random: Random, t: Tensor) -> Tensor:
    return b.op(random.choice(("SQUARE", "ZEROS_LIKE", "EXP", "RELU", "CUMSUM")), [t])


def _shape(b: Builder, random: Random, t: Tensor) -> Tensor:
    """Sizes that became numbers, and numbers that become sizes."""
    return b.op("FILL", [b.op("SHAPE", [t]), _constant(b, 2, np.float32)])


def _enlarge(b: Builder, random: Random, t: Tensor) -> Tensor:
    image = b.op("RESHAPE", [t, _constant(b, [1, -1, 1, 1], np.int32)])
    sizes = [random.choice(_FACTORS), random.choice(_FACTORS)]
    return b.op("RESIZE_NEAREST_NEIGHBOR", [image, _constant(b, sizes, np.int32)])


def _product(b: Builder, random: Random, t: Tensor) -> Tensor:
    column = b.op("RESHAPE", [t, _constant(b, [-1, 1], np.int32)])
    row = b.op("RESHAPE", [t, _constant(b, [1, -1], np.int32)])
    return b.op("BATCH_MATMUL", [column, row])


STEPS: tuple[Step, ...] = (
    *(_tile, _tile, _fill, _broadcast, _range, _pad, _join, _pack, _flatten, _outer, _diagonal),
    *(_gather, _one_hot, _alike, _shape, _enlarge, _product),
)
