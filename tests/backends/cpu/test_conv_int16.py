"""Native kinds with int16 activations give what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Cases, each_target, each_width, each_width_of
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs

IN, OUT = Quantization.per_tensor(0.0007), Quantization.per_tensor(0.004)
BIASES = (np.int64, np.int32)


def scales(count: int, axis: int) -> Quantization:
    return Quantization.per_channel(np.linspace(0.0005, 0.006, count, dtype=np.float32), axis)


def bias(count: int, dtype: type) -> np.ndarray:
    return (np.arange(count) * 9173 - 20000).astype(dtype)


@each_width_of("wide", BIASES, BIASES[:1])
def test_convolutions_equal_the_records(wide: type, target: str) -> None:
    cases = Cases()
    for count, attrs in (
        (3, conv2d_attrs("SAME", 1, 1)),
        (40, conv2d_attrs("VALID", 2, 1, "RELU")),
        (70, conv2d_attrs("SAME", 1, 2, "RELU6", 2, 1)),
    ):
        data = cases.data(DType.INT16, (2, 9, 8, 33), IN)
        weights = cases.constant(cases.values(DType.INT8, (count, 3, 3, 33)), scales(count, 0))
        operands = [data, weights, cases.constant(bias(count, wide))]
        cases.op("CONV_2D", operands, attrs, quant=OUT)
    for count in (3, 50):
        data = cases.data(DType.INT16, (1, 9, 8, count), IN)
        weights = cases.constant(cases.values(DType.INT8, (1, 3, 3, count)), scales(count, 3))
        operands = [data, weights, cases.constant(bias(count, wide))]
        attrs_ = depthwise_attrs("SAME", 1, 2, 1)
        cases.op("DEPTHWISE_CONV_2D", operands, attrs_, quant=OUT)
    lowest = cases.given(np.full((1, 20, 20, 5), -32768, np.int16), IN)
    weights = cases.constant(np.full((1, 20, 20, 5), -128, np.int8), scales(5, 3))
    cases.op("DEPTHWISE_CONV_2D", [lowest, weights], depthwise_attrs("VALID", 1, 1, 1), quant=OUT)
    cases.check(target, threads=2)


@each_target
def test_groups_of_channels_equal_the_records(target: str) -> None:
    cases = Cases()
    for groups, depth, filters, wide in ((2, 16, 48, np.int64), (9, 1, 18, np.int32)):
        data = cases.data(DType.INT16, (2, 7, 6, groups * depth), IN)
        weights = cases.values(DType.INT8, (filters, 3, 3, depth))
        operands = [data, cases.constant(weights, scales(filters, 0))]
        operands.append(cases.constant(bias(filters, wide)))
        cases.op("CONV_2D", operands, conv2d_attrs("SAME", 2, 1, "RELU"), quant=OUT)
    for depth, filters in ((3, 12), (20, 40)):
        data = cases.data(DType.INT16, (1, 8, 7, depth), IN)
        weights = cases.values(DType.INT8, (1, 3, 3, filters))
        operands = [data, cases.constant(weights, scales(filters, 3))]
        operands.append(cases.constant(bias(filters, np.int64)))
        attrs = depthwise_attrs("SAME", 1, 2, 1)
        cases.op("DEPTHWISE_CONV_2D", operands, attrs, quant=OUT)
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_equal_the_record(padding: str, target: str) -> None:
    cases = Cases()
    size = (6, 10) if padding == "SAME" else (7, 11)
    shape = cases.constant(np.array([2, *size, 20], np.int32))
    data = cases.data(DType.INT16, (2, 3, 5, 9), IN)
    weights = cases.constant(cases.values(DType.INT8, (20, 3, 3, 9)), scales(20, 0))
    operands = [shape, weights, data, cases.constant(bias(20, np.int64))]
    cases.op("TRANSPOSE_CONV", operands, transpose_conv_attrs(padding, 2, 2), quant=OUT)
    cases.check(target)


@each_width
def test_products_of_every_reach_and_factor_equal_the_records(target: str) -> None:
    """Sums beyond 32 bits, factors beyond the fast form, runs of one element and of odd length."""
    cases = Cases()
    for depth, step in ((3001, 0.004), (3001, 4e-7), (90, 4e-7), (90, 4e3), (1, 0.004)):
        data = cases.data(DType.INT16, (7, depth), IN)
        weights = cases.constant(cases.values(DType.INT8, (37, depth)), scales(37, 0))
        result = Quantization.per_tensor(step)
        cases.op("FULLY_CONNECTED", [data, weights], FullyConnectedAttrs(), quant=result)
    for channels in (1, 2, 5):
        data = cases.data(DType.INT16, (1, 7, 9, channels), IN)
        weights = cases.constant(cases.values(DType.INT8, (20, 3, 3, channels)), scales(20, 0))
        attrs = conv2d_attrs("SAME", 1, 1, "NONE", 2, 2)
        cases.op("CONV_2D", [data, weights], attrs, quant=OUT)
    cases.check(target, threads=2)


@each_target
def test_fully_connected_layers_equal_the_record(target: str) -> None:
    cases = Cases()
    for units, wide in ((7, np.int64), (40, np.int32), (130, np.int64)):
        data = cases.data(DType.INT16, (5, 600), IN)
        values = cases.values(DType.INT8, (units, 600))
        weights = cases.constant(values, Quantization.per_tensor(0.002))
        operands = [data, weights, cases.constant(bias(units, wide))]
        cases.op("FULLY_CONNECTED", operands, FullyConnectedAttrs("RELU"), quant=OUT)
    cases.check(target, threads=2)
