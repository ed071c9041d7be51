"""Native softmax gives what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType, Quantization
from circlet.ops.softmax import SoftmaxAttrs
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_target, each_width
from tests.backends.cpu.harness import run_native, runnable

SHAPES = ((1, 10), (3, 1001), (2, 5, 7, 21), (1917, 2), (129, 4), (77, 8), (1, 4095))


@each_width
def test_float_softmax_equals_the_record(target: str) -> None:
    cases = Cases()
    for shape in SHAPES:
        for beta in (1.0, 0.3):
            cases.op("SOFTMAX", [cases.data(DType.FLOAT32, shape)], SoftmaxAttrs(beta))
        cases.op("LOG_SOFTMAX", [cases.data(DType.FLOAT32, shape)])
        cases.op("SOFTMAX", [cases.data(DType.FLOAT32, shape, scale=60.0)], SoftmaxAttrs(1.0))
    cases.check(target, threads=2)


@each_width
def test_float_softmax_of_rows_of_every_length_equals_the_record(target: str) -> None:
    """Rows that registers hold, and those a little longer, end at every place of a vector."""
    cases = Cases()
    for count in (*range(1, 19), *range(31, 34), 47, 48, 49, *range(62, 67), 79, 128, 129, 197):
        cases.op("SOFTMAX", [cases.data(DType.FLOAT32, (3, count), scale=5)], SoftmaxAttrs(1.0))
        cases.op("LOG_SOFTMAX", [cases.data(DType.FLOAT32, (2, count), scale=5)])
    cases.op("SOFTMAX", [cases.data(DType.FLOAT32, (3, 21), scale=5)], SoftmaxAttrs(0.0))
    cases.op("SOFTMAX", [cases.data(DType.FLOAT32, (3, 70), scale=5)], SoftmaxAttrs(0.0))
    cases.check(target)


@each_width
def test_masked_elements_have_no_share(target: str) -> None:
    cases = Cases()
    masked = [(2, -np.inf), (8, -np.inf), (5, -np.inf), (40, -1e9), (200, -np.inf), (200, -3e4)]
    for count, mask in masked:
        rows = np.linspace(-3, 3, 2 * count, dtype=np.float32).reshape(2, count)
        rows[:, 1::2] = mask
        cases.op("SOFTMAX", [cases.given(rows)], SoftmaxAttrs(1.0))
    if (chosen := runnable(target)) is None:
        pytest.skip(f"this CPU cannot run {target}")
    for result in run_native(cases.graph(), cases.inputs, chosen):
        assert np.all(result[:, 1::2] == 0) and np.allclose(result.sum(axis=1), 1)


@each_width
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_stored_softmax_equals_the_record(dtype: DType, target: str) -> None:
    cases = Cases()
    out = Quantization.per_tensor(1 / 256, -128 if dtype is DType.INT8 else 0)
    for shape in SHAPES:
        for scale in (0.004, 0.05, 0.3, 2.0):
            data = cases.data(dtype, shape, Quantization.per_tensor(scale, 7))
            cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=out)
    for count in (*range(31, 36), 63, 64, 65, 197, 255):
        data = cases.data(dtype, (3, count), Quantization.per_tensor(0.05, 7))
        cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=out)
    near = cases.given(np.array([[100, 98, 100, 97] * 25], dtype.numpy), data.quant)
    cases.op("SOFTMAX", [near], SoftmaxAttrs(1.0), quant=out)
    for value in (0, 255):
        row = np.full((2, 4095), value, np.uint8).view(dtype.numpy)
        data = cases.given(row, Quantization.per_tensor(0.1, 7))
        cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=out)
    cases.check(target, threads=2)


@each_width
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


@each_width
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


def test_softmax_that_rises_where_its_input_falls_is_refused() -> None:
    cases = Cases()
    cases.op("SOFTMAX", [cases.data(DType.FLOAT32, (2, 5))], SoftmaxAttrs(-1.0))
    reason = LOWERINGS.choose(cases.graph().ops[0], parse_target("generic"))
    assert isinstance(reason, str) and "factor of the exponent is negative" in reason
