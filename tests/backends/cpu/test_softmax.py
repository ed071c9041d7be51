"""Native softmax gives what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.softmax import SoftmaxAttrs
from tests.backends.cpu.cases import Cases, each_target

SHAPES = ((1, 10), (3, 1001), (2, 5, 7, 21), (1917, 2), (1, 4095))


@each_target
def test_float_softmax_equals_the_record(target: str) -> None:
    cases = Cases()
    for shape in SHAPES:
        for beta in (1.0, 0.3):
            cases.op("SOFTMAX", [cases.data(DType.FLOAT32, shape)], SoftmaxAttrs(beta))
        cases.op("LOG_SOFTMAX", [cases.data(DType.FLOAT32, shape)])
        cases.op("SOFTMAX", [cases.data(DType.FLOAT32, shape, scale=60.0)], SoftmaxAttrs(1.0))
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_stored_softmax_equals_the_record(dtype: DType, target: str) -> None:
    cases = Cases()
    out = Quantization.per_tensor(1 / 256, -128 if dtype is DType.INT8 else 0)
    for shape in SHAPES:
        for scale in (0.004, 0.05, 0.3, 2.0):
            data = cases.data(dtype, shape, Quantization.per_tensor(scale, 7))
            cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=out)
    for value in (0, 255):
        row = np.full((2, 4095), value, np.uint8).view(dtype.numpy)
        data = cases.given(row, Quantization.per_tensor(0.1, 7))
        cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=out)
    cases.check(target, threads=2)


@each_target
def test_softmax_of_int16_equals_the_record(target: str) -> None:
    cases = Cases()
    result = Quantization.per_tensor(1 / 32768)
    for shape in ((1, 2), (3, 5, 40), (2, 4097), (7, 1)):
        for scale in (5e-5, 2e-3):
            source = cases.data(DType.INT16, shape, Quantization.per_tensor(scale))
            cases.op("SOFTMAX", [source], SoftmaxAttrs(1.0), quant=result)
    alike = cases.given(np.full((1, 1 << 15), 7, np.int16), Quantization.per_tensor(1e-3))
    cases.op("SOFTMAX", [alike], SoftmaxAttrs(1.0), quant=result)
    cases.check(target, threads=2)


@each_target
def test_16_bit_results_of_bytes_equal_the_record(target: str) -> None:
    cases = Cases()
    for shape in ((1, 2), (3, 5, 40), (2, 300)):
        source = cases.data(DType.INT8, shape, Quantization.per_tensor(0.07, 2))
        result = Quantization.per_tensor(1 / 65536, -32768)
        cases.op("SOFTMAX", [source], SoftmaxAttrs(1.0), dtype=DType.INT16, quant=result)
    cases.check(target)


@each_target
def test_log_softmax_of_bytes_equals_the_record(target: str) -> None:
    cases = Cases()
    for shape in ((1, 3, 3, 2), (3, 5, 40), (2, 300)):
        for dtype, zero in ((DType.UINT8, 255), (DType.INT8, 127)):
            source = cases.data(dtype, shape, Quantization.per_tensor(0.0388, zero - 127))
            cases.op("LOG_SOFTMAX", [source], quant=Quantization.per_tensor(1 / 16, zero))
    cases.check(target)
