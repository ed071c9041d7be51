"""Convolutions and matrix products on the device, against the records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlet import Session
from circlet.backends.opencl.compile import compile_partition
from circlet.backends.opencl.device import DeviceFacts
from circlet.backends.opencl.lower.products import TILES, Product, tile_for
from circlet.ir import DType
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from circlet.plan.partition import partition
from tests.backends.cpu.cases import Cases
from tests.backends.cpu.harness import check_results
from tests.backends.cpu.q8_graphs import Conv, Rows, conv_graph, rows_graph
from tests.backends.opencl.running import bound, check, device, job

pytestmark = pytest.mark.usefixtures("device")
__all__ = ["device"]

F32 = DType.FLOAT32
FACTS = DeviceFacts("none", 132, 1024, 48 << 10, True, True, False)

# Input, filters, window, and attributes.
Case = tuple[tuple[int, int, int, int], int, tuple[int, int], dict[str, Any]]
CONVOLUTIONS: list[Case] = [
    ((1, 5, 6, 3), 4, (3, 3), {"padding": "SAME_UPPER"}),
    ((1, 9, 8, 3), 5, (3, 3), {"strides": (2, 2), "padding": "SAME_UPPER", "activation": "RELU6"}),
    ((2, 7, 5, 8), 16, (1, 1), {}),
    ((1, 7, 5, 6), 9, (1, 1), {"activation": "RELU"}),
    ((1, 8, 8, 4), 7, (1, 1), {"strides": (2, 2)}),
    ((1, 9, 7, 12), 20, (3, 2), {"dilations": (2, 3), "padding": ((2, 1), (3, 0))}),
    ((1, 6, 6, 8), 12, (3, 3), {"groups": 2, "padding": "SAME_UPPER"}),
    ((1, 6, 6, 6), 9, (2, 2), {"groups": 3}),
    ((1, 12, 12, 20), 70, (3, 3), {"padding": "SAME_UPPER"}),
    ((1, 17, 16, 1), 33, (5, 5), {"strides": (2, 3)}),
]
DEPTHWISE: list[Case] = [
    ((1, 6, 7, 8), 1, (3, 3), {"padding": "SAME_UPPER", "activation": "RELU6"}),
    ((2, 7, 6, 5), 1, (3, 3), {"strides": (2, 2), "padding": "SAME_UPPER"}),
    ((1, 7, 7, 4), 3, (2, 3), {"dilations": (2, 1)}),
    ((1, 8, 6, 12), 1, (5, 3), {"padding": ((1, 2), (0, 1))}),
]


def test_float_convolutions() -> None:
    cases = Cases(1)
    for number, (shape, filters, window, attrs) in enumerate(CONVOLUTIONS):
        depth = shape[3] // attrs.get("groups", 1)
        x = cases.data(F32, shape)
        w = cases.constant(cases.values(F32, (filters, *window, depth), 0.3))
        bias = [cases.constant(cases.values(F32, (filters,)))] if number % 2 else []
        cases.op("CONV_2D", [x, w, *bias], replace(Conv2DAttrs(), **attrs))
    check(cases)


def test_float_depthwise_and_transposed_convolutions() -> None:
    cases = Cases(2)
    for shape, multiplier, window, attrs in DEPTHWISE:
        filters = shape[3] * multiplier
        x = cases.data(F32, shape)
        w = cases.constant(cases.values(F32, (1, *window, filters), 0.3))
        bias = cases.constant(cases.values(F32, (filters,)))
        given = replace(DepthwiseConv2DAttrs(), **attrs)
        cases.op("DEPTHWISE_CONV_2D", [x, w, bias], given)
    for filters, window, strides in ((3, (3, 3), (2, 2)), (8, (2, 2), (2, 2)), (5, (4, 3), (1, 2))):
        x = cases.data(F32, (2, 4, 5, 6))
        w = cases.constant(cases.values(F32, (filters, *window, 6), 0.3))
        sizes = [2, 4 * strides[0], 5 * strides[1], filters]
        wanted = cases.constant(np.array(sizes, np.int32))
        bias = cases.constant(cases.values(F32, (filters,)))
        same = TransposeConvAttrs("SAME_UPPER", strides)
        cases.op("TRANSPOSE_CONV", [wanted, w, x, bias], same)
    check(cases)


def test_float_matrices() -> None:
    cases = Cases(3)
    for rows, depth, units in ((1, 7, 5), (1, 256, 10), (3, 64, 33), (40, 30, 21), (70, 64, 130)):
        x = cases.data(F32, (rows, depth))
        w = cases.constant(cases.values(F32, (units, depth), 0.2))
        bias = cases.constant(cases.values(F32, (units,)))
        cases.op("FULLY_CONNECTED", [x, w, bias], FullyConnectedAttrs(activation="RELU"))
        cases.op("FULLY_CONNECTED", [x, cases.data(F32, (units, depth))])
    for left, right, turned in (
        ((2, 5, 7), (2, 7, 6), (False, False)),
        ((2, 3, 8, 5), (3, 8, 9), (True, False)),
        ((4, 6, 12), (1, 10, 12), (False, True)),
        ((1, 9, 20), (3, 33, 9), (True, True)),
    ):
        pair = [cases.data(F32, left), cases.data(F32, right)]
        cases.op("BATCH_MATMUL", pair, BatchMatMulAttrs(*turned))
    check(cases)


def test_weights_may_be_stored_in_float16() -> None:
    b = builder()
    random = np.random.default_rng(5)
    image = b.input("x", F32, (1, 5, 6, 4))
    weights = [
        random.standard_normal(shape).astype(np.float16).astype(np.float32)
        for shape in ((8, 3, 3, 4), (1, 3, 3, 8), (5, 8))
    ]
    kernels = [b.constant(f"w{n}", array) for n, array in enumerate(weights)]
    y = b.op("CONV_2D", [image, kernels[0], None], Conv2DAttrs("SAME_UPPER"))
    y = b.op("DEPTHWISE_CONV_2D", [y, kernels[1], None], DepthwiseConv2DAttrs("SAME_UPPER"))
    y = b.op("FULLY_CONNECTED", [y, kernels[2]], FullyConnectedAttrs(keep_num_dims=True))
    model = b.output(y).model()
    given = [random.standard_normal((1, 5, 6, 4)).astype(np.float32)]
    sessions = [
        Session(model, backends=("opencl",), precision=precision, cache=False)
        for precision in ("f32", "f16")
    ]
    exact, rounded = (next(iter(session.run(given).values())) for session in sessions)
    np.testing.assert_allclose(rounded, exact, rtol=1e-5, atol=1e-4)  # these weights are halves
    graph = model.main
    (part,) = partition(graph, dict.fromkeys(graph.ops, "opencl"))
    plain, halved = (
        len(compile_partition(part, FACTS, job().budget, precision).constants)
        for precision in ("f32", "f16")
    )
    assert halved < plain


Q8_CONVOLUTIONS = [
    Conv((1, 5, 6, 3), 5, stride=(2, 2), per_channel=True),
    Conv((1, 6, 5, 5), 17, activation="RELU6", per_channel=True),
    Conv((1, 7, 7, 16), 48, (1, 1), per_channel=True, zeros=(-128, 0, 127)),
    Conv((1, 9, 8, 4), 24, (2, 3), dilation=(2, 2), per_channel=True),
    Conv((1, 5, 7, 9), 35, dtype=DType.UINT8, zeros=(17, 151, 120)),
    Conv((1, 5, 7, 32), 20, dtype=DType.UINT8, zeros=(3, 128, 9)),
    Conv((1, 4, 4, 8), 20, output_scale=0.00005),
    Conv((1, 4, 4, 8), 20, output_scale=1e7),
    Conv((1, 7, 6, 8), 0, per_channel=True),
    Conv((1, 7, 6, 5), 0, stride=(2, 2), multiplier=2, dtype=DType.UINT8, zeros=(3, 128, 9)),
]


def test_convolutions_of_bytes_are_exact() -> None:
    graph, inputs = conv_graph(Q8_CONVOLUTIONS, np.random.default_rng(7))
    runner, results = bound(graph, inputs)
    runner.run()
    check_results(graph, inputs, results)


def test_rows_of_bytes_are_exact() -> None:
    rows = [Rows((1, 12, 7)), Rows((3, 64, 33), activation="RELU"), Rows((20, 30, 18))]
    graph, inputs = rows_graph(rows, np.random.default_rng(8))
    runner, results = bound(graph, inputs)
    runner.run()
    check_results(graph, inputs, results)


def test_items_of_every_tile_load_as_many_values() -> None:
    for tile in TILES:
        x, y, _ = tile.group
        assert tile.rows * 4 % (x * y) == 0
        assert tile.columns * 4 % (x * y) == 0
        assert tile.rows % tile.each == 0


def test_a_tile_keeps_every_unit_busy_where_it_can() -> None:
    large = Product(rows=4096, columns=1024, depth=64, c_row=1024)
    assert tile_for(large, FACTS) == TILES[0]
    assert tile_for(replace(large, rows=49), FACTS).rows < 64
    x, y, _ = tile_for(large, replace(FACTS, group_items=64)).group
    assert x * y <= 64
    assert tile_for(replace(large, columns=16), FACTS).columns == 16
    assert tile_for(replace(large, rows=1, columns=1), FACTS) == TILES[-1]
