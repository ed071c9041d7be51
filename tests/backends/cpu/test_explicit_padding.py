"""Native kinds with windows and any amounts of padding give what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.tiers import quick_of

FINE, WIDE = Quantization.per_tensor(0.01), Quantization.per_tensor(0.7, 3)
PADS = (((0, 1), (2, 0)), ((2, 1), (0, 3)), ((1, 0), (1, 2)))
STEPS = (((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (2, 2)), ((3, 2), (1, 1)))
FAMILIES = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)
OUTPUTS = {DType.INT16: Quantization.per_tensor(0.7), DType.FLOAT32: None}


def weights(cases: Cases, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    stored = dtype if dtype in (DType.FLOAT32, DType.UINT8) else DType.INT8
    values = cases.values(stored, shape)
    return cases.constant(values, None if dtype is DType.FLOAT32 else FINE)


@each_target
@pytest.mark.parametrize("dtype", quick_of(FAMILIES, (DType.FLOAT32, DType.INT8)))
def test_convolutions_equal_the_records(dtype: DType, target: str) -> None:
    cases = Cases()
    quant = OUTPUTS.get(dtype, WIDE)
    for pads in PADS:
        for strides, dilations in STEPS:
            data = cases.data(dtype, (2, 9, 10, 16), FINE)
            attrs = Conv2DAttrs(pads, strides, dilations, activation="RELU")
            cases.op("CONV_2D", [data, weights(cases, dtype, (5, 3, 3, 16))], attrs, quant=quant)
            own = DepthwiseConv2DAttrs(pads, strides, dilations)
            taps = weights(cases, dtype, (1, 3, 3, 16))
            cases.op("DEPTHWISE_CONV_2D", [data, taps], own, quant=quant)
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("dtype", FAMILIES)
def test_pooling_equals_the_records(dtype: DType, target: str) -> None:
    cases = Cases()
    for pads in PADS:
        for strides, _ in STEPS:
            data = cases.data(dtype, (1, 9, 10, 19))
            attrs = Pool2DAttrs(pads, strides, (3, 4))
            for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
                quant = None if dtype is DType.FLOAT32 else data.quant
                cases.op(kind, [data], attrs, quant=quant)
    cases.check(target, threads=2)


@each_target
def test_transposed_and_volume_convolutions_equal_the_records(target: str) -> None:
    cases = Cases()
    for (top, bottom), (left, right) in PADS:
        data = cases.data(DType.FLOAT32, (1, 4, 5, 6))
        sizes = (3 * 2 + 4 - top - bottom, 4 * 2 + 4 - left - right)
        shape = cases.constant(np.array((1, *sizes, 7), np.int32))
        operands = [shape, weights(cases, DType.FLOAT32, (7, 4, 4, 6)), data]
        attrs = TransposeConvAttrs(((top, bottom), (left, right)), (2, 2))
        cases.op("TRANSPOSE_CONV", operands, attrs)
        volume = cases.data(DType.FLOAT32, (1, 5, 6, 7, 3))
        taps = weights(cases, DType.FLOAT32, (2, 3, 3, 3, 4))
        pads = ((1, 0), (top, bottom), (left, right))
        cases.op("CONV_3D", [volume, taps], Conv3DAttrs(pads, (1, 2, 1)))
    cases.check(target)
