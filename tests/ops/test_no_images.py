"""Operators over windows of images of which there are none."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.ir import DType, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs

KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "AVERAGE_POOL_2D", "MAX_POOL_2D")


def network(kind: str, dtype: DType) -> Model:
    """One operator over no images of 4x4 pixels of 2 channels, with windows of 2x2."""
    b, quant = builder(), None if dtype is DType.FLOAT32 else Quantization.per_tensor(0.1, 3)
    x = b.input("x", dtype, (0, 4, 4, 2), quant)
    weights = b.constant("w", np.ones((2, 2, 2, 2), dtype.numpy), quant)
    of_channels = b.constant("v", np.ones((1, 2, 2, 2), dtype.numpy), quant)
    sizes = b.constant("sizes", np.array([0, 5, 5, 2], np.int32))
    inputs, attrs = {
        "CONV_2D": ([x, weights], Conv2DAttrs()),
        "DEPTHWISE_CONV_2D": ([x, of_channels], DepthwiseConv2DAttrs()),
        "TRANSPOSE_CONV": ([sizes, weights, x], TransposeConvAttrs()),
    }.get(kind, ([x], Pool2DAttrs(kernel_shape=(2, 2))))
    return b.output(b.op(kind, inputs, attrs, quant=quant)).model()


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_of_no_images(kind: str, dtype: DType) -> None:
    session = Session(network(kind, dtype), cache=False)
    (result,) = session.run([np.zeros((0, 4, 4, 2), dtype.numpy)]).values()
    size = 5 if kind == "TRANSPOSE_CONV" else 3
    assert (result.shape, result.dtype) == ((0, size, size, 2), dtype.numpy)
    (row,) = session.placement
    assert row["backend"] == "reference"
    assert row["refused"] == [["cpu", "a size is 0"]]
