"""Which forms of 8-bit products 64-bit Arm takes."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.q8_graphs import Conv, Rows, conv_graph, rows_graph


def products(graph: Graph, target: str) -> list[tuple[object, ...]]:
    """The arguments of the calls of `conv_q8.h`."""
    (part,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(part, parse_target(target), 1).calls
    return [call.kernel.arguments for call in calls if call and call.kernel.function == "conv_q8"]


def near_half(step: float) -> Graph:
    """A layer whose sums are its inputs, and are worth half over `step` of its outputs each."""
    b = builder()
    x = b.input("x", DType.INT8, (256, 1), Quantization.per_tensor(0.5))
    weights = b.constant("w", np.ones((1, 1), np.int8), Quantization.per_tensor(1.0))
    quant = Quantization.per_tensor(step, 3)
    return b.output(
        b.op("FULLY_CONNECTED", [x, weights], FullyConnectedAttrs(), quant=quant)
    ).build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("rows, is_matrix", [(1, False), (2, True), (9, True)])
def test_single_rows_take_dot_products_where_there_are_products_of_matrices(
    rows: int, is_matrix: bool, dtype: DType
) -> None:
    graph, _ = rows_graph([Rows((rows, 64, 48), dtype)], np.random.default_rng(2))
    ((*_, how, _, _, _),) = products(graph, "aarch64+i8mm")
    assert ("CONV_Q8_MATRIX" in str(how)) == is_matrix


@pytest.mark.parametrize("width, is_matrix", [(1, False), (5, True)])
def test_columns_of_one_pixel_do_so_too(width: int, is_matrix: bool) -> None:
    graph, _ = conv_graph([Conv((1, 6, width, 16), 24, (3, 3))], np.random.default_rng(2))
    ((*_, how, _, _, _),) = products(graph, "aarch64+i8mm")
    assert ("CONV_Q8_MATRIX" in str(how)) == is_matrix


@pytest.mark.parametrize(
    "step, target, form",
    [
        (49.0, "aarch64", "Q8_DOUBLE"),
        (48.0, "aarch64", "Q8_DOUBLE_NEAREST"),
        (48.0, "x86_64+v3", "Q8_DOUBLE"),
    ],
)
def test_sums_that_come_next_to_a_half_are_rounded_in_two_steps(
    step: float, target: str, form: str
) -> None:
    """49 times the double next to 1/98 is the largest double below a half."""
    product = 49 * (0.5 / 49.0)
    assert product == np.nextafter(0.5, 0)
    ((_, _, given, *_),) = products(near_half(step), target)
    assert given == f"{form} | Q8_SATURATED"


def test_adding_a_half_and_truncating_rounds_to_nearest_elsewhere() -> None:
    rng = np.random.default_rng(5)
    halves = rng.integers(0, 1 << 20, 20000) + 0.5
    values = np.concatenate([halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf)])
    values = values[values != np.nextafter(0.5, 0)]
    whole = np.floor(values)
    np.testing.assert_array_equal(np.trunc(values + 0.5), whole + (values - whole >= 0.5))
