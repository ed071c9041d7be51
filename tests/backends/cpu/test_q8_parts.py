"""8-bit and hybrid layers that are several products give what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization, Tensor
from tests.backends.cpu.cases import Cases, each_target
from tests.windows import conv2d_attrs, transpose_conv_attrs

OUTPUT = Quantization.per_tensor(0.9, 5)
# Input sizes, filters, window, strides, output sizes, padding.
TRANSPOSED = [
    ((2, 4, 5, 6), 5, (3, 3), (2, 2), (8, 10), "SAME"),
    ((1, 3, 4, 17), 21, (2, 2), (2, 2), (6, 8), "VALID"),
    ((1, 5, 3, 8), 3, (4, 5), (3, 1), (16, 7), "VALID"),
    ((1, 5, 6, 4), 7, (1, 2), (3, 2), (13, 12), "VALID"),
    ((1, 6, 6, 16), 16, (3, 3), (1, 1), (6, 6), "SAME"),
    ((1, 5, 5, 3), 2, (9, 9), (3, 3), (15, 15), "SAME"),
]
# Input sizes, filters, window, stride, groups, dilation.
GROUPED = [
    ((2, 6, 7, 12), 12, 3, 1, 3, 1),
    ((1, 7, 5, 64), 64, 3, 2, 16, 1),
    ((1, 5, 6, 24), 48, 1, 1, 3, 1),
    ((1, 9, 9, 8), 40, 3, 1, 2, 2),
]


class Layers(Cases):
    """Layers of one type of data beside each other."""

    def __init__(self, dtype: DType, *, per_channel: bool) -> None:
        super().__init__()
        self._dtype, self._per_channel = dtype, per_channel

    def image(self, shape: tuple[int, ...]) -> Tensor:
        data = self.data(self._dtype, shape, Quantization.per_tensor(0.04, 9))
        self.inputs[-1][0] = self.inputs[-1][0] // 2 if data.dtype.is_integer else 0.3
        return data

    def weights(self, shape: tuple[int, ...]) -> Tensor:
        stored = DType.UINT8 if self._dtype is DType.UINT8 else DType.INT8
        values = self.values(stored, shape)
        if not self._per_channel:
            zero = 131 if stored is DType.UINT8 else 0
            return self.constant(values, Quantization.per_tensor(0.01, zero))
        scales = np.linspace(0.004, 0.02, shape[0], dtype=np.float32)
        return self.constant(values, Quantization.per_channel(scales, 0))

    def bias(self, count: int) -> Tensor:
        if self._dtype is DType.FLOAT32:
            return self.constant(self.values(DType.FLOAT32, (count,)))
        return self.constant(np.arange(count, dtype=np.int32) * 311 - 900)


FORMS = [
    (DType.UINT8, False),
    (DType.INT8, True),
    (DType.FLOAT32, True),
    pytest.param(DType.INT8, False, marks=pytest.mark.slow),
    pytest.param(DType.FLOAT32, False, marks=pytest.mark.slow),
]


@each_target
@pytest.mark.parametrize(("dtype", "per_channel"), FORMS)
def test_transposed_convolutions_equal_the_record(
    dtype: DType, per_channel: bool, target: str
) -> None:
    cases = Layers(dtype, per_channel=per_channel)
    for shape, filters, window, strides, sizes, padding in TRANSPOSED:
        output = cases.constant(np.array([shape[0], *sizes, filters], np.int32))
        weights = cases.weights((filters, *window, shape[3]))
        attrs = transpose_conv_attrs(padding, strides[1], strides[0], "RELU")
        inputs = [output, weights, cases.image(shape), cases.bias(filters)]
        quant = None if dtype.is_float else OUTPUT
        cases.op("TRANSPOSE_CONV", inputs, attrs, quant=quant)
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize(("dtype", "per_channel"), FORMS)
def test_groups_of_channels_equal_the_record(dtype: DType, per_channel: bool, target: str) -> None:
    cases = Layers(dtype, per_channel=per_channel)
    for shape, filters, size, stride, groups, dilation in GROUPED:
        weights = cases.weights((filters, size, size, shape[3] // groups))
        attrs = conv2d_attrs("SAME", stride, stride, dilation_w=dilation, dilation_h=dilation)
        inputs = [cases.image(shape), weights, cases.bias(filters)]
        cases.op("CONV_2D", inputs, attrs, quant=None if dtype.is_float else OUTPUT)
    cases.check(target, threads=2)
