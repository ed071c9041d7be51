from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.batch_matmul import BatchMatMulAttrs
from tests.ops.one_op import assert_agrees, broken_rule, make_op, own_result, stored_values, tensor

SHAPES = (
    ((5, 7), (7, 3), False, False),
    ((2, 5, 7), (7, 3), False, False),
    ((1, 4, 2, 7), (3, 1, 7, 5), False, False),
    ((2, 7, 5), (2, 3, 7), True, True),
    ((2, 5, 7), (2, 3, 7), False, True),
)


@pytest.mark.parametrize(("first", "second", "adj_x", "adj_y"), SHAPES)
def test_float_products_agree_with_the_peer(
    first: tuple[int, ...], second: tuple[int, ...], adj_x: bool, adj_y: bool
) -> None:
    random = np.random.default_rng(1)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in (first, second))
    attrs = BatchMatMulAttrs(adj_x, adj_y)
    inputs = [tensor("x", x), tensor("y", y)]
    assert_agrees(make_op("BATCH_MATMUL", inputs, (DType.FLOAT32, None), attrs), [x, y])


@pytest.mark.parametrize(("first", "second", "adj_x", "adj_y"), SHAPES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_integer_products_agree_with_the_peer(
    dtype: DType, first: tuple[int, ...], second: tuple[int, ...], adj_x: bool, adj_y: bool
) -> None:
    x, y = stored_values(dtype, first, 1), stored_values(dtype, second, 2)
    zero = (3, -5, 7) if dtype is DType.INT8 else (0, 0, 0)
    out = 0.31 if dtype is DType.INT8 else 0.07
    scale = 0.03 if dtype is DType.INT8 else 0.0001
    inputs = [tensor("x", x, (scale, zero[0])), tensor("y", y, (0.02, zero[1]))]
    attrs = BatchMatMulAttrs(adj_x, adj_y)
    op = make_op("BATCH_MATMUL", inputs, (dtype, (out, zero[2])), attrs, version=3)
    assert_agrees(op, [x, y])


def test_scales_per_column_count() -> None:
    x, y = stored_values(DType.INT16, (9, 16), 1), stored_values(DType.INT8, (16, 4), 2)
    scales = np.array([0.01, 0.02, 0.005, 0.03], np.float32)
    quant = Quantization.per_channel(scales, 1)
    inputs = [tensor("x", x, (0.0001, 0)), tensor("y", y, quant, constant=True)]
    op = make_op("BATCH_MATMUL", inputs, (DType.INT16, (0.001, 0)))
    real = (x * 0.0001) @ (y * scales.astype(np.float64))
    wanted = np.clip(np.round(real / 0.001), -32768, 32767)
    assert np.abs(own_result(op, [x]) - wanted).max() <= 1


def test_inner_sizes_must_agree() -> None:
    x, y = np.zeros((2, 3), np.float32), np.zeros((4, 2), np.float32)
    inputs = [tensor("x", x), tensor("y", y)]
    assert broken_rule(make_op("BATCH_MATMUL", inputs, (DType.FLOAT32, None))) == "depths"
