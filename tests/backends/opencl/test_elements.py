"""Chains of elements, reductions, pooling, shares and movement on the device."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.opencl.backend import OpenClBackend
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.smooth import GeluAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.placement.interface import Reason
from tests.backends.cpu.cases import QUANT, Cases
from tests.backends.opencl.running import check, device, job

pytestmark = pytest.mark.usefixtures("device")
__all__ = ["device"]

F32, I8, U8, I32, I64 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.INT64
SHARES = {I8: Quantization.per_tensor(1 / 256, -128), U8: Quantization.per_tensor(1 / 256, 0)}


def test_chains_of_elements_over_every_way_to_spread() -> None:
    cases = Cases(1)
    x, row = cases.data(F32, (2, 5, 6, 3)), cases.data(F32, (3,))
    column = cases.data(F32, (2, 1, 6, 1))
    single = cases.constant(np.float32(0.75))
    for kind in ("ADD", "SUB", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE"):
        for other in (row, column, single):
            cases.op(kind, [x, other])
    summed = cases.op("ADD", [cases.data(F32, (6, 3)), x])
    for kind in ("TANH", "LOGISTIC", "HARD_SWISH", "RELU6", "EXP", "FLOOR", "ABS", "NEG"):
        summed = cases.op(kind, [summed])
    far = cases.given(np.array([-1e30, -50.0, -9.5, 0.0, 9.5, 1e30], np.float32))
    cases.op("TANH", [far])
    for approximate in (True, False):
        cases.op("GELU", [far], GeluAttrs(approximate))
    cases.op("DIV", [x, cases.constant(np.array([0.5, -2.0, 3.0], np.float32))])
    check(cases)


def test_elements_of_bytes_and_words_are_exact() -> None:
    cases = Cases(2)
    for dtype in (I8, U8):
        first = cases.data(dtype, (3, 7, 5))
        second = cases.data(dtype, (7, 1), Quantization.per_tensor(0.02, 9))
        for kind in ("ADD", "SUB", "MUL"):
            cases.op(kind, [first, second], quant=Quantization.per_tensor(0.07, 4))
        cases.op("DEQUANTIZE", [first], dtype=F32)
        cases.op("QUANTIZE", [cases.data(F32, (4, 33))], dtype=dtype, quant=QUANT)
        cases.op("LOGISTIC", [first], quant=SHARES[dtype])
        cases.op("MAXIMUM", [first, cases.data(dtype, (3, 7, 5))], quant=QUANT)
    words = [cases.data(I32, (5, 9)), cases.data(I32, (9,))]
    for kind in ("ADD", "MUL", "FLOOR_DIV", "FLOOR_MOD", "LESS", "EQUAL"):
        dtype = DType.BOOL if kind in ("LESS", "EQUAL") else I32
        cases.op(kind, words, dtype=dtype)
    cases.op("CAST", [cases.data(F32, (4, 4), scale=1e10)], dtype=I32)
    cases.op("CAST", [words[0]], dtype=I64)
    check(cases)


def test_pools_and_shares() -> None:
    cases = Cases(3)
    for dtype in (F32, I8, U8):
        for attrs in (
            Pool2DAttrs("SAME_UPPER", (2, 2), (3, 3)),
            Pool2DAttrs(((0, 0), (0, 0)), (1, 2), (5, 4), "RELU"),
        ):
            for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
                quant = None if dtype is F32 else QUANT
                cases.op(kind, [cases.data(dtype, (2, 7, 8, 5))], attrs, quant=quant)
        for shape in ((3, 11), (1, 1001), (2, 3, 70)):
            quant = SHARES.get(dtype)
            cases.op("SOFTMAX", [cases.data(dtype, shape)], SoftmaxAttrs(1.0), quant=quant)
    plain = Pool2DAttrs(((0, 0), (0, 0)), (1, 1), (2, 2))
    cases.op("L2_POOL_2D", [cases.data(F32, (1, 4, 4, 3))], plain)
    cases.op("LOG_SOFTMAX", [cases.data(F32, (4, 65))])
    check(cases)


REDUCED = [((2, 5, 6, 7), (1, 2)), ((3, 200), (1,)), ((4, 3, 5), (0, 2)), ((6, 5), (0, 1))]


def test_reductions() -> None:
    cases = Cases(4)
    for number, (shape, axes) in enumerate(REDUCED):
        along = cases.constant(np.array(axes, np.int32))
        attrs = ReducerAttrs(keep_dims=number % 2 == 0)
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
            cases.op(kind, [cases.data(F32, shape), along], attrs)
            quant = Quantization.per_tensor(0.3, -7) if kind in ("MEAN", "SUM") else QUANT
            cases.op(kind, [cases.data(I8, shape), along], attrs, quant=quant)
        cases.op("SUM", [cases.data(I32, shape), along], attrs)
    for kind in ("ARG_MAX", "ARG_MIN"):
        for axis in (1, -1):
            along = cases.constant(np.int32(axis))
            given = [cases.data(F32, (2, 9, 4)), along]
            cases.op(kind, given, ArgAttrs("INT64"), dtype=I64)
    check(cases)


def test_movement() -> None:
    cases = Cases(5)
    x, bytes_ = cases.data(F32, (2, 5, 4, 3)), cases.data(I8, (2, 5, 4, 3))

    def ints(*values: int) -> Tensor:
        return cases.constant(np.array(values, np.int32))

    for data, quant in ((x, None), (bytes_, QUANT)):
        cases.op("TRANSPOSE", [data, ints(0, 3, 1, 2)], quant=quant)
        cases.op("SLICE", [data, ints(0, 1, 1, 0), ints(2, 3, 2, 3)], quant=quant)
        pads = cases.constant(np.array([[0, 0], [1, 2], [3, 0], [0, 1]], np.int32))
        cases.op("PAD", [data, pads], quant=quant)
        around = cases.constant(np.array([[0, 0], [2, 1], [1, 1], [0, 0]], np.int32))
        cases.op("MIRROR_PAD", [data, around], quant=quant)
        cases.op("TILE", [data, ints(1, 2, 1, 3)], quant=quant)
        attrs = ConcatenationAttrs(axis=2)
        cases.op("CONCATENATION", [data, data], attrs, quant=quant)
        cases.op("RESHAPE", [data, ints(10, 12)], ReshapeAttrs((10, 12)), quant=quant)
        for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
            cases.op(kind, [data, ints(7, 9)], ResizeAttrs("half_pixel"), quant=quant)
    scales = [Quantization.per_tensor(scale, zero) for scale, zero in ((0.05, 3), (0.11, 200))]
    parts = [
        cases.data(U8, (2, size, 3), quant) for size, quant in zip((2, 5), scales, strict=True)
    ]
    cases.op("CONCATENATION", parts, ConcatenationAttrs(axis=1), quant=scales[0])
    swapped = cases.op("TRANSPOSE", [x, ints(3, 2, 1, 0)])
    flat = cases.op("RESHAPE", [swapped, ints(3, 40)], ReshapeAttrs((3, 40)))
    cases.op("BATCH_MATMUL", [flat, cases.data(F32, (40, 2))], BatchMatMulAttrs())
    check(cases)


def test_wide_integers_that_expressions_narrow_are_refused() -> None:
    cases = Cases(6)
    words = [cases.data(I64, (2, 3), None) for _ in range(2)]
    chosen = cases.op("SELECT_V2", [cases.constant(np.array([True, False, True])), *words])
    (op,) = [op for op in cases.graph().ops if op.outputs[0] is chosen]
    answer = OpenClBackend().compiler(job()).supports(op)
    assert isinstance(answer, Reason)
    assert "64-bit" in answer.text
