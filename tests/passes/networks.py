"""Small convolutions for pass tests, in float and int8."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Quantization, Tensor
from circlet.ir.builder import Builder
from tests.windows import conv2d_attrs

F32, I8 = DType.FLOAT32, DType.INT8


def image(b: Builder, dtype: DType, size: int = 6) -> Tensor:
    """A graph input [1, size, size, 2]."""
    quant = Quantization.per_tensor(0.25, -3) if dtype is I8 else None
    return b.input("x", dtype, (1, size, size, 2), quant)


def conv(b: Builder, x: Tensor, scale: float = 0.5, *, stride: int = 1, kernel: int = 3) -> Tensor:
    """A VALID convolution "conv" with seeded weights and no activation."""
    weights = np.random.default_rng(1).integers(-9, 9, (4, kernel, kernel, 2))
    attrs = conv2d_attrs("VALID", stride, stride)
    if x.dtype is F32:
        w = b.constant("w", weights.astype(np.float32))
        return b.op("CONV_2D", [x, w, None], attrs, name="conv")
    w = b.constant("w", weights.astype(np.int8), Quantization.per_channel([0.1] * 4, 0))
    return b.op("CONV_2D", [x, w, None], attrs, name="conv", quant=Quantization.per_tensor(scale))
