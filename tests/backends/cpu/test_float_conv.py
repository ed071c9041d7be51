"""Native float convolutions and fully connected layers against the operator records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats import conv_float, fully_connected_float  # noqa: F401
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Network, SideBySide
from tests.backends.cpu.harness import AND_V3, check_native, run_native
from tests.windows import conv2d_attrs

Shape = Sequence[int]


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _conv(
    image: Shape, weights: Shape, attrs: Conv2DAttrs, *, bias: bool = True, seed: int = 1
) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, tuple(image))
    w = b.constant("w", _values(seed, *weights) / np.float32(np.sqrt(np.prod(weights[1:]))))
    offsets = b.constant("b", _values(seed + 1, weights[0])) if bias else None
    return b.output(b.op("CONV_2D", [x, w, offsets], attrs)).build()


def _attrs(
    padding: str = "SAME", stride: int = 1, dilation: int = 1, fused: str = "NONE"
) -> Conv2DAttrs:
    return conv2d_attrs(padding, stride, stride, fused, dilation, dilation)


POINT, THREE = (1, 1), (3, 3)
CASES = {
    "point": ((1, 14, 14, 24), (40, *POINT, 24), _attrs()),
    "point_long": ((1, 7, 7, 96), (33, *POINT, 96), _attrs(fused="RELU6")),
    "point_strided": ((1, 9, 11, 7), (16, *POINT, 7), _attrs(stride=2)),
    "point_batches": ((3, 5, 6, 5), (70, *POINT, 5), _attrs()),
    "one_pixel": ((1, 1, 1, 50), (129, *POINT, 50), _attrs(fused="RELU")),
    "three": ((1, 13, 15, 8), (20, *THREE, 8), _attrs()),
    "three_valid": ((2, 8, 9, 3), (17, *THREE, 3), _attrs("VALID")),
    "first_layer": ((1, 33, 47, 3), (8, *THREE, 3), _attrs(stride=2, fused="RELU6")),
    "dilated": ((1, 17, 12, 6), (9, *THREE, 6), _attrs(dilation=2)),
    "dilated_valid": ((1, 17, 19, 6), (9, *THREE, 6), _attrs("VALID", dilation=3)),
    "tiny_image": ((1, 2, 2, 4), (5, *THREE, 4), _attrs()),
    "wide_window": ((1, 10, 4, 1), (64, 10, 4, 1), _attrs(stride=2)),
    "whole_image": ((2, 5, 5, 6), (10, 5, 5, 6), _attrs("VALID", fused="RELU_N1_TO_1")),
    "few_filters": ((1, 9, 23, 8), (3, 9, 9, 8), _attrs(fused="RELU")),
    "few_filters_strided": ((2, 9, 31, 3), (4, 5, 5, 3), _attrs("VALID", stride=3)),
    "few_filters_dilated": ((1, 11, 17, 4), (2, *THREE, 4), _attrs(dilation=2)),
    "grouped": ((1, 6, 7, 12), (21, *THREE, 4), _attrs()),
    "grouped_point": ((1, 8, 8, 40), (40, *POINT, 20), _attrs()),
    "grouped_batches": ((2, 5, 5, 8), (8, *THREE, 1), _attrs(stride=2)),
}


def _network(case: str) -> Network:
    image, weights, attrs = CASES[case]
    return _conv(image, weights, attrs), [_values(3, *image)]


CONVOLUTIONS = SideBySide(CASES, _network)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", CASES)
def test_convolution_equals_record(case: str, target: str) -> None:
    CONVOLUTIONS.check(case, target)


def test_convolution_without_bias_equals_record() -> None:
    graph = _conv((1, 6, 6, 5), (7, *THREE, 5), _attrs(), bias=False)
    check_native(graph, [_values(3, 1, 6, 6, 5)])


def test_convolution_is_bit_identical_for_any_thread_count() -> None:
    graph = _conv((1, 30, 31, 16), (48, *THREE, 16), _attrs())
    image = _values(4, 1, 30, 31, 16)
    (one,), (two,) = (run_native(graph, [image], threads=n) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_convolution_keeps_nan_through_the_activation() -> None:
    graph = _conv((1, 2, 2, 2), (3, *POINT, 2), _attrs(fused="RELU6"))
    image = np.full((1, 2, 2, 2), np.nan, np.float32)
    assert np.isnan(run_native(graph, [image])[0]).all()


def test_chained_convolutions_write_into_planned_borders() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 12, 10, 4))
    y = b.op("CONV_2D", [x, b.constant("w1", _values(5, 18, 3, 3, 4) / 6)], _attrs(fused="RELU"))
    z = b.op("CONV_2D", [y, b.constant("w2", _values(6, 7, 3, 3, 18) / 12)], _attrs(stride=2))
    p = b.op("CONV_2D", [z, b.constant("w3", _values(7, 33, 1, 1, 7) / 3)], _attrs())
    check_native(b.output(p).build(), [_values(8, 1, 12, 10, 4)])


FC_CASES = {
    "one_row": ((1, 64), 10),
    "long": ((1, 1280), 1001),
    "image": ((2, 3, 4, 5), 17),
    "rows": ((33, 40), 50),
    "two_rows": ((2, 7), 300),
    "one_unit": ((5, 12), 1),
}


def _fully_connected(case: str) -> Network:
    shape, units = FC_CASES[case]
    depth = int(np.prod(shape[1:]))
    b = builder()
    x = b.input("x", DType.FLOAT32, shape)
    w = b.constant("w", _values(2, units, depth) / np.float32(np.sqrt(depth)))
    attrs = FullyConnectedAttrs(activation="RELU")
    y = b.op("FULLY_CONNECTED", [x, w, b.constant("b", _values(3, units))], attrs)
    return b.output(y).build(), [_values(4, *shape)]


ROWS = SideBySide(FC_CASES, _fully_connected)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", FC_CASES)
def test_fully_connected_equals_record(case: str, target: str) -> None:
    ROWS.check(case, target)
