"""Native matrix products give what the record gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.operands import limits
from tests.backends.cpu.cases import Cases, each_target

SHAPES = (
    ((5, 7), (7, 3), False, False),
    ((2, 33, 20), (20, 70), False, False),
    ((1, 4, 2, 7), (3, 1, 7, 5), False, False),
    ((2, 7, 5), (2, 3, 7), True, True),
    ((2, 1, 300), (2, 130, 300), False, True),
    ((300, 6), (300, 17), True, False),
    ((7, 9, 21), (21, 35), False, False),
    ((3, 21, 11), (35, 21), True, True),
    ((2, 3, 4, 9, 21), (2, 3, 1, 21, 50), False, False),
    ((2, 3, 2, 21, 9), (3, 1, 21, 17), True, False),
    ((1, 600, 64), (64, 70), False, False),
)
FEW_ROWS = (
    ((3, 1, 64), (3, 64, 50), False, False),
    ((2, 4, 100), (2, 100, 83), False, False),
    ((20, 3), (20, 40), True, False),
    ((8, 9), (9, 33), False, False),
    ((1, 37), (21, 37), False, True),
    ((2, 2, 40), (2, 5, 40), False, True),
    ((2, 3), (2, 3), False, True),
    ((9, 33), (50, 33), False, True),
    ((20, 1, 33), (50, 33), False, True),
    ((3, 2, 40), (40, 70), False, False),
    ((3, 40, 2), (40, 70), True, False),
    ((2, 1, 40), (21, 40), False, True),
    ((5, 70), (21, 70), False, True),
    ((2, 6, 33), (2, 9, 33), False, True),
    ((3, 40, 1), (3, 21, 40), True, True),
    ((20, 1, 40), (1, 40, 21), False, False),
    ((3, 1, 9), (3, 1, 21), True, False),
)


@each_target
@pytest.mark.parametrize("shapes", [SHAPES, FEW_ROWS], ids=["any", "few_rows"])
def test_float_products_equal_the_record(
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...], bool, bool]], target: str
) -> None:
    cases = Cases()
    for first, second, adj_x, adj_y in shapes:
        x = cases.data(DType.FLOAT32, first, scale=1)
        y = cases.data(DType.FLOAT32, second, scale=1)
        fixed = cases.constant(cases.values(DType.FLOAT32, second, 1))
        for right in (y, fixed):
            cases.op("BATCH_MATMUL", [x, right], BatchMatMulAttrs(adj_x, adj_y))
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("types", [("INT8", "INT8"), ("INT16", "INT16"), ("INT16", "INT8")])
def test_integer_products_equal_the_record(types: tuple[str, str], target: str) -> None:
    cases = Cases()
    left, right = map(DType, types)
    zeros = (3, -5, 7) if left is DType.INT8 else (0, 0, 0)
    scale = 0.03 if left is DType.INT8 else 0.0001
    for first, second, adj_x, adj_y in SHAPES:
        x = cases.data(left, first, Quantization.per_tensor(scale, zeros[0]))
        y = cases.data(right, second, Quantization.per_tensor(0.02, zeros[1]))
        out = Quantization.per_tensor(0.31 if left is DType.INT8 else 0.07, zeros[2])
        cases.op("BATCH_MATMUL", [x, y], BatchMatMulAttrs(adj_x, adj_y), quant=out)
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("right", [DType.INT16, DType.INT8])
def test_sums_of_extremes_keep_all_bits(right: DType, target: str) -> None:
    cases = Cases()
    least, most = limits(right)
    for depth in (2, 256, 515):
        for first, second in ((-32768, least), (32767, least), (-32768, most)):
            x = cases.given(np.full((3, depth), first, np.int16), Quantization.per_tensor(0.0001))
            values = np.full((depth, 20), second, right.numpy)
            y = cases.given(values, Quantization.per_tensor(0.0002))
            step = 0.02 if right is DType.INT16 else 0.0001
            cases.op("BATCH_MATMUL", [x, y], quant=Quantization.per_tensor(step))
    cases.check(target)


@each_target
def test_scales_per_column_reach_their_columns(target: str) -> None:
    cases = Cases()
    for columns in (3, 16, 70):
        scales = np.linspace(0.001, 0.02, columns, dtype=np.float32)
        x = cases.data(DType.INT16, (9, 40), Quantization.per_tensor(0.0001))
        weights = cases.values(DType.INT8, (40, columns))
        y = cases.constant(weights, Quantization.per_channel(scales, 1))
        cases.op("BATCH_MATMUL", [x, y], quant=Quantization.per_tensor(0.001))
    cases.check(target)
