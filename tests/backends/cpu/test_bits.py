"""Native ops on bits, quotients of bytes and joined rows give what the records give."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Quantization
from circlet.ops.bits import BucketizeAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_target, each_width

INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)


@each_width
def test_bits_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in INTEGERS:
        pair = [cases.data(dtype, shape, None) for shape in ((3, 37), (1, 37))]
        cases.op("BITWISE_XOR", pair)
        counts = cases.given(np.arange(111).reshape(3, 37).astype(dtype.numpy) % 40)
        cases.op("RIGHT_SHIFT", [pair[0], counts])
    many = tuple(float(start) for start in np.round(np.linspace(-3, 3, 300), 2))
    for starts in ((-2.0, -0.5, 0.0, 1.0), many, ()):
        for dtype in (DType.FLOAT32, DType.INT32):
            data = cases.data(dtype, (70,), None)
            cases.op("BUCKETIZE", [data], BucketizeAttrs(starts), dtype=DType.INT32)
    edges = cases.given(np.array([-3, 3, np.inf, -np.inf, 0, *many], np.float32))
    cases.op("BUCKETIZE", [edges], BucketizeAttrs(many), dtype=DType.INT32)
    for dtype in (DType.INT32, DType.UINT8):
        cases.op("BITCAST", [cases.data(DType.FLOAT32, (3, 5))], dtype=dtype)
    cases.check(target)


@each_width
def test_quotients_of_bytes_equal_the_record(target: str) -> None:
    cases, result = Cases(), Quantization.per_tensor(0.4, 7)
    for dtype in (DType.INT8, DType.UINT8):
        for shapes in (((2, 3, 70), (2, 3, 70)), ((2, 3, 70), (3, 1)), ((70,), (2, 1, 70))):
            cases.op("DIV", [cases.data(dtype, shape, QUANT) for shape in shapes], quant=result)
    cases.check(target, threads=2)


@each_target
def test_joined_rows_equal_the_record(target: str) -> None:
    cases, random = Cases(), np.random.default_rng(2)
    count = cases.constant(np.array(9, np.int32))
    for dtype in (DType.FLOAT32, DType.INT32):
        data = cases.data(dtype, (40, 3, 50), None)
        ids = cases.given(random.integers(-2, 12, (40,), np.int32))
        for kind in ("SUM", "PROD", "MAX", "MIN"):
            cases.op(f"UNSORTED_SEGMENT_{kind}", [data, ids, count])
        rising = cases.constant(np.sort(random.integers(0, 9, (40,), np.int32)))
        cases.op("SEGMENT_SUM", [data, rising])
    cases.check(target, threads=2)


@each_target
def test_parts_of_complex_numbers_equal_the_record(target: str) -> None:
    cases = Cases()
    lengths = cases.constant(np.array((1, 32), np.int32))
    data = cases.data(DType.FLOAT32, (3, 1, 32))
    spectrum = cases.builder.op("RFFT2D", [data, lengths], dtype=DType.COMPLEX64)
    for kind in ("REAL", "IMAG", "COMPLEX_ABS"):
        cases.op(kind, [spectrum], dtype=DType.FLOAT32)
    cases.check(target)
