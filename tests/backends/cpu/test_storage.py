"""Sharing of buffers is invisible: every arrangement computes what the records compute."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.split import SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.plan.partition import partition
from circlet.target.targets import native_target
from tests.backends.cpu.cases import Network, SideBySide
from tests.evaluate import random_inputs
from tests.windows import conv2d_attrs, depthwise_attrs, pool_attrs

F32, I8 = DType.FLOAT32, DType.INT8
QUANT = Quantization.per_tensor(0.1, 3)


class Net:
    """A graph builder with the few ops whose storage is shared."""

    def __init__(self, dtype: DType = F32) -> None:
        self.b: Builder = builder()
        self.dtype = dtype
        self.quant = None if dtype.is_float else QUANT

    def input(self, *shape: int) -> Tensor:
        name = f"in{len(self.b.graph.inputs)}"
        return self.b.input(name, self.dtype, shape, self.quant)

    def relu(self, x: Tensor) -> Tensor:
        return self.b.op("RELU", [x], quant=self.quant)

    def conv(self, x: Tensor, channels: int = 5, size: int = 3, padding: str = "SAME") -> Tensor:
        values = np.random.default_rng(len(self.b.graph.ops)).integers(
            -9, 9, (channels, size, size, x.static_shape[3])
        )
        if self.dtype is F32:
            weights = self.b.constant("w", (values / 8).astype(np.float32))
        else:
            scales = Quantization.per_channel([0.02] * channels, 0)
            weights = self.b.constant("w", values.astype(np.int8), scales)
        attrs = conv2d_attrs(padding, 1, 1)
        return self.b.op("CONV_2D", [x, weights, None], attrs, quant=self.quant)

    def depthwise(self, x: Tensor) -> Tensor:
        channels = x.static_shape[3]
        values = np.random.default_rng(len(self.b.graph.ops)).integers(-9, 9, (1, 3, 3, channels))
        if self.dtype is F32:
            weights = self.b.constant("w", (values / 8).astype(np.float32))
        else:
            scales = Quantization.per_channel([0.02] * channels, 3)
            weights = self.b.constant("w", values.astype(np.int8), scales)
        return self.b.op(
            "DEPTHWISE_CONV_2D", [x, weights, None], depthwise_attrs(), quant=self.quant
        )

    def pool(self, x: Tensor, size: int = 2) -> Tensor:
        attrs = pool_attrs("SAME", 1, 1, size, size)
        return self.b.op("MAX_POOL_2D", [x], attrs, quant=self.quant)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.b.op("ADD", [x, y], quant=self.quant)

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        return self.b.op("RESHAPE", [x], ReshapeAttrs(shape), quant=self.quant)

    def concat(self, axis: int, *parts: Tensor) -> Tensor:
        return self.b.op("CONCATENATION", parts, ConcatenationAttrs(axis), quant=self.quant)

    def slice(self, x: Tensor, begin: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
        places = [self.b.constant("at", np.array(n, np.int32)) for n in (begin, size)]
        return self.b.op("SLICE", [x, *places], quant=self.quant)

    def split(self, x: Tensor, axis: int, parts: int) -> list[Tensor]:
        number = self.b.constant("axis", np.array(axis, np.int32))
        shape = tuple(n // parts if i == axis else n for i, n in enumerate(x.static_shape))
        outputs = [Tensor(f"part{k}", self.dtype, shape, self.quant) for k in range(parts)]
        return self.b.op_many("SPLIT", [number, x], outputs, SplitAttrs(parts))

    def unpack(self, x: Tensor, axis: int) -> list[Tensor]:
        count = x.static_shape[axis]
        shape = (*x.static_shape[:axis], *x.static_shape[axis + 1 :])
        outputs = [Tensor(f"plane{k}", self.dtype, shape, self.quant) for k in range(count)]
        return self.b.op_many("UNPACK", [x], outputs, UnpackAttrs(count, axis))

    def graph(self, *outputs: Tensor) -> Graph:
        return self.b.output(*outputs).build()


def steps(graph: Graph) -> list[str]:
    """Kernels that the compiled graph calls."""
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return [kernel for _, kernel in compile_partition(whole, native_target(), 1).steps]


def copies(graph: Graph) -> int:
    return sum("copy" in kernel for kernel in steps(graph))


def reshape_of_an_input(n: Net) -> Graph:
    return n.graph(n.relu(n.reshape(n.input(2, 3, 4), 6, 4)))


def reshape_of_an_input_is_an_output(n: Net) -> Graph:
    return n.graph(n.reshape(n.input(2, 3, 4), 6, 4))


def reshape_into_an_output(n: Net) -> Graph:
    return n.graph(n.reshape(n.relu(n.input(2, 3, 4)), 6, 4))


def reshape_of_a_reshape_to_two_outputs(n: Net) -> Graph:
    first = n.reshape(n.relu(n.input(2, 3, 4)), 6, 4)
    return n.graph(first, n.reshape(first, 24))


def two_reshapes_of_one_tensor_are_outputs(n: Net) -> Graph:
    x = n.relu(n.input(2, 3, 4))
    return n.graph(n.reshape(x, 24), n.reshape(x, 4, 6))


def an_output_and_its_reshape_are_outputs(n: Net) -> Graph:
    x = n.relu(n.input(2, 3, 4))
    return n.graph(x, n.reshape(x, 24))


def reshape_of_an_image_with_border(n: Net) -> Graph:
    x = n.conv(n.input(1, 5, 4, 3))
    return n.graph(n.conv(x), n.relu(n.reshape(x, 20, 5)))


def reshape_to_an_image_that_is_padded(n: Net) -> Graph:
    return n.graph(n.conv(n.reshape(n.relu(n.input(60)), 1, 5, 4, 3)))


def reshape_of_an_input_that_is_padded(n: Net) -> Graph:
    return n.graph(n.conv(n.reshape(n.input(60), 1, 5, 4, 3)))


def an_input_that_is_padded(n: Net) -> Graph:
    return n.graph(n.conv(n.input(1, 5, 4, 3)))


def an_input_that_is_padded_twice_differently(n: Net) -> Graph:
    x = n.input(1, 7, 6, 3)
    return n.graph(n.conv(x, size=3), n.conv(x, size=5))


def a_tensor_that_is_padded_twice_differently(n: Net) -> Graph:
    x = n.conv(n.input(1, 7, 6, 3))
    return n.graph(n.conv(x, size=3), n.conv(x, size=5))


def a_padded_tensor_that_is_added_too(n: Net) -> Graph:
    x = n.conv(n.input(1, 7, 6, 5))
    return n.graph(n.add(n.conv(x), x))


def an_output_that_is_padded_too(n: Net) -> Graph:
    x = n.conv(n.input(1, 7, 6, 3))
    return n.graph(x, n.conv(x))


def a_batch_that_is_padded(n: Net) -> Graph:
    return n.graph(n.conv(n.conv(n.input(3, 5, 4, 3))))


def an_image_that_is_pooled_and_padded(n: Net) -> Graph:
    x = n.conv(n.input(1, 7, 6, 3))
    return n.graph(n.add(n.pool(x), n.conv(x)))


def an_image_whose_pixels_are_apart(n: Net) -> Graph:
    x = n.relu(n.input(2, 3, 40, 256))
    return n.graph(n.depthwise(x), n.add(x, n.depthwise(x)), n.pool(x))


def an_input_whose_pixels_would_be_apart(n: Net) -> Graph:
    x = n.input(1, 3, 40, 256)
    return n.graph(n.depthwise(x), n.conv(x, 2))


def apart_pixels_that_are_convolved_and_joined(n: Net) -> Graph:
    x = n.conv(n.input(1, 3, 34, 2), 256)
    return n.graph(n.concat(3, x, n.depthwise(x)), n.conv(x, 2), n.reshape(x, 102, 256))


def concatenation_of_channels(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.relu(n.concat(3, n.conv(x, 5), n.conv(x, 7), n.conv(x, 16))))


def concatenation_of_channels_is_an_output(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.concat(3, n.conv(x, 5), n.conv(x, 1), n.conv(x, 33)))


def concatenation_that_is_padded(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.conv(n.concat(3, n.conv(x, 5), n.conv(x, 7))))


def concatenation_of_rows(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.relu(n.concat(1, n.conv(x), n.conv(x), n.conv(x))))


def concatenation_along_the_outermost_axis(n: Net) -> Graph:
    x = n.input(2, 5)
    return n.graph(n.concat(0, n.relu(x), n.add(x, x)))


def concatenation_along_the_last_axis_of_a_matrix(n: Net) -> Graph:
    x = n.input(2, 5)
    return n.graph(n.concat(-1, n.relu(x), n.add(x, x)))


def concatenation_of_an_input(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.concat(3, x, n.conv(x)))


def concatenation_of_one_tensor_twice(n: Net) -> Graph:
    x = n.conv(n.input(1, 5, 4, 3))
    return n.graph(n.concat(3, x, n.relu(x), x))


def one_tensor_in_two_concatenations(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    a, b = n.conv(x, 5), n.conv(x, 6)
    return n.graph(n.concat(3, a, b), n.concat(3, b, a))


def concatenation_of_a_concatenation(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    inner = n.concat(3, n.conv(x, 2), n.conv(x, 3))
    return n.graph(n.concat(3, n.conv(x, 4), inner))


def concatenation_of_rows_of_a_concatenation_of_rows(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    inner = n.concat(1, n.conv(x), n.conv(x))
    return n.graph(n.concat(1, n.conv(x), inner), n.conv(inner))


def concatenation_of_an_output(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    a = n.conv(x)
    return n.graph(a, n.concat(3, a, n.conv(x)))


def concatenation_of_a_padded_tensor(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    a = n.conv(x)
    return n.graph(n.concat(3, a, n.conv(a)))


def concatenation_of_reshapes(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    parts = [n.reshape(n.conv(x, c), 1, 20 * c // 5, 5) for c in (5, 10)]
    return n.graph(n.concat(1, *parts))


def concatenation_and_reshape_into_an_output(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.reshape(n.concat(3, n.conv(x, 5), n.conv(x, 3)), 160))


def concatenation_of_a_part_that_others_read_late(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    a = n.conv(x)
    joined = n.relu(n.concat(3, a, n.conv(x)))
    return n.graph(joined, n.conv(n.relu(a)), n.add(a, a))


def an_input_is_read_by_many(n: Net) -> Graph:
    x = n.input(1, 5, 4, 3)
    return n.graph(n.relu(x), n.add(x, x), n.reshape(x, 60), n.concat(3, x, x))


def many_lives_share_the_arena(n: Net) -> Graph:
    x = n.input(1, 9, 9, 8)
    kept = [n.conv(x, 8)]
    for _ in range(6):
        kept.append(n.add(n.conv(kept[-1], 8), kept[max(0, len(kept) - 3)]))
    return n.graph(n.concat(3, *kept[2:5]), kept[-1])


def rows_of_an_input(n: Net) -> Graph:
    x = n.input(7, 12)
    return n.graph(n.relu(n.slice(x, (2, 0), (3, 12))), n.relu(n.slice(x, (4, 3), (1, 5))))


def rows_of_a_computed_tensor_outlive_it(n: Net) -> Graph:
    x = n.relu(n.input(2, 6, 6, 3))
    image = n.slice(x, (1, 0, 0, 0), (1, 6, 6, 3))
    deep = n.conv(n.conv(n.relu(x), 3), 3)
    return n.graph(deep, n.relu(image), n.conv(image))


def columns_of_a_matrix(n: Net) -> Graph:
    x = n.relu(n.input(7, 12))
    return n.graph(n.relu(n.slice(x, (0, 2), (7, 5))))


def single_columns_of_a_matrix(n: Net) -> Graph:
    x = n.relu(n.input(7, 12))
    return n.graph(n.relu(n.slice(x, (0, 2), (7, 1))))


def parts_of_rows(n: Net) -> Graph:
    first, second, third = n.split(n.relu(n.input(6, 10)), 0, 3)
    return n.graph(n.add(first, third), n.relu(second))


def parts_of_columns(n: Net) -> Graph:
    first, second = n.split(n.relu(n.input(6, 10)), 1, 2)
    return n.graph(n.add(first, second))


def channels_of_an_image(n: Net) -> Graph:
    first, second = n.split(n.relu(n.input(2, 3, 4, 38)), 3, 2)
    return n.graph(n.add(first, second), n.relu(first))


def channels_of_an_image_that_are_padded(n: Net) -> Graph:
    first, second = n.split(n.relu(n.input(1, 5, 4, 6)), 3, 2)
    return n.graph(n.conv(first), n.pool(second))


def channels_that_are_reshaped(n: Net) -> Graph:
    x = n.relu(n.input(3, 5, 8))
    return n.graph(n.relu(n.reshape(n.slice(x, (0, 0, 2), (3, 5, 4)), 60)))


def a_column_of_each_matrix_with_an_axis_put_last(n: Net) -> Graph:
    x = n.relu(n.input(2, 3, 4))
    places = ((0, 1, 0, 0), (2, 2, 3, 0), (1, 1, 1, 1))
    begin, end, steps = (n.b.constant("at", np.array(at, np.int32)) for at in places)
    attrs = StridedSliceAttrs(new_axis_mask=8, shrink_axis_mask=2)
    part = n.b.op("STRIDED_SLICE", [x, begin, end, steps], attrs, quant=n.quant)
    return n.graph(n.relu(part), n.relu(x))


def parts_that_are_outputs(n: Net) -> Graph:
    return n.graph(*n.split(n.relu(n.input(6, 10)), 0, 2))


def planes_one_by_one(n: Net) -> Graph:
    first, second, third = n.unpack(n.relu(n.input(3, 4, 5)), 0)
    return n.graph(n.add(n.add(first, second), third))


def a_tensor_beside_its_own_rows(n: Net) -> Graph:
    x = n.relu(n.input(4, 6))
    return n.graph(n.relu(n.concat(0, x, n.slice(x, (1, 0), (2, 6)))))


def rows_of_rows_of_a_reshape(n: Net) -> Graph:
    x = n.reshape(n.relu(n.input(4, 30)), 8, 15)
    return n.graph(n.relu(n.slice(n.slice(x, (2, 0), (5, 15)), (1, 0), (2, 15))))


ARRANGEMENTS = [
    value
    for value in list(globals().values())
    if callable(value)
    and getattr(value, "__annotations__", None) == {"n": "Net", "return": "Graph"}
]


def _network(case: tuple[Callable[[Net], Graph], DType]) -> Network:
    arrange, dtype = case
    graph = arrange(Net(dtype))
    return graph, random_inputs(graph)


TYPES = (F32, I8)
ARRANGED = SideBySide(product(ARRANGEMENTS, TYPES), _network, threads=2)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("arrange", ARRANGEMENTS, ids=lambda function: function.__name__)
def test_storage_does_not_show_in_the_results(
    arrange: Callable[[Net], Graph], dtype: DType
) -> None:
    ARRANGED.check((arrange, dtype), "native")


def test_there_are_arrangements() -> None:
    assert len(ARRANGEMENTS) >= 30


@pytest.mark.parametrize(
    ("arrange", "count"),
    [
        (reshape_into_an_output, 0),
        (reshape_of_an_input, 0),
        (reshape_of_an_input_is_an_output, 1),
        (concatenation_of_channels, 1),
        (concatenation_along_the_outermost_axis, 0),
        (concatenation_of_rows, 1),
        (concatenation_of_an_input, 2),
        (a_tensor_that_is_padded_twice_differently, 1),
        (an_input_that_is_padded_twice_differently, 1),
        (rows_of_an_input, 0),
        (rows_of_a_computed_tensor_outlive_it, 1),
        (columns_of_a_matrix, 0),
        (single_columns_of_a_matrix, 1),
        (channels_of_an_image, 0),
        (channels_that_are_reshaped, 1),
        (parts_of_rows, 0),
        (parts_of_columns, 0),
        (parts_that_are_outputs, 2),
        (planes_one_by_one, 0),
        (rows_of_rows_of_a_reshape, 0),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_copies_are_made_only_where_they_must_be(
    arrange: Callable[[Net], Graph], count: int
) -> None:
    assert copies(arrange(Net())) == count
