"""Native pooling gives what the records give, on every target."""

from __future__ import annotations

from itertools import product

import numpy as np

from circlet.ir import DType
from tests.backends.cpu.cases import QUANT, Cases, each_width, each_width_of
from tests.windows import pool_attrs

CHANNELS = (1, 3, 16, 67, 130)
WINDOWS = (
    pool_attrs("SAME", 2, 1, 3, 2, "RELU6"),
    pool_attrs("VALID", 2, 2, 2, 2),
    pool_attrs("SAME", 1, 1, 5, 5, "RELU_N1_TO_1"),
    pool_attrs("VALID", 1, 1, 7, 9),
)


@each_width_of(
    "kind, dtype",
    product(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D"), (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)
    ),
    [
        ("AVERAGE_POOL_2D", DType.FLOAT32),
        ("AVERAGE_POOL_2D", DType.INT8),
        ("MAX_POOL_2D", DType.UINT8),
    ],
)
def test_pooling_equals_the_record(kind: str, dtype: DType, target: str) -> None:
    cases = Cases()
    for channels in CHANNELS:
        data = cases.data(dtype, (2, 9, 31, channels))
        for attrs in WINDOWS:
            cases.op(kind, [data], attrs, quant=QUANT)
    cases.check(target, threads=2)


@each_width
def test_l2_pooling_equals_the_record(target: str) -> None:
    cases = Cases()
    for channels in CHANNELS:
        data = cases.data(DType.FLOAT32, (1, 6, 29, channels))
        cases.op("L2_POOL_2D", [data], pool_attrs("SAME", 2, 2, 3, 3))
    cases.check(target)


@each_width
def test_global_pooling_of_extreme_values_rounds_exactly(target: str) -> None:
    cases = Cases()
    for dtype in (DType.INT8, DType.UINT8):
        for value in (0, 255):
            data = cases.values(dtype, (1, 64, 64, 5))
            data.view("uint8")[:, :63] = value
            tensor = cases.given(data, QUANT)
            cases.op("AVERAGE_POOL_2D", [tensor], pool_attrs("VALID", 1, 1, 64, 64), quant=QUANT)
    cases.check(target)


@each_width
def test_means_of_many_16_bit_values_round_exactly(target: str) -> None:
    cases = Cases()
    for value in (-32768, -32767, 32766, 32767):
        data = np.full((1, 61, 59, 5), value, np.int16)
        data[:, 59:] += cases.values(DType.INT16, (1, 2, 59, 5)) % 3 * (-1 if value > 0 else 1)
        attrs = pool_attrs("VALID", 1, 1, 59, 61)
        cases.op("AVERAGE_POOL_2D", [cases.given(data, QUANT)], attrs, quant=QUANT)
    cases.check(target)
