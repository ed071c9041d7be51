from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops.operands import limits
from tests.ops.one_op import assert_agrees, broken_rule, centre, make_op, stored_values, tensor


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_stored_inverse_roots_agree_with_the_peer(dtype: DType) -> None:
    low, high = limits(dtype)
    zero = low if dtype is DType.INT8 else 0
    x = np.arange(zero, high + 1).astype(dtype.numpy)[None]
    out = (0.02, -100) if dtype is DType.INT8 else (0.0002, 0)
    op = make_op("RSQRT", [tensor("x", x, (0.03, zero))], (dtype, out), version=3)
    assert_agrees(op, [x])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("depth", [1, 7, 700])
def test_stored_norms_agree_with_the_peer(dtype: DType, depth: int) -> None:
    x = stored_values(dtype, (9, depth), depth)
    x[0] = 3 + centre(dtype)
    inputs = [tensor("x", x, (0.03, 3 + centre(dtype)))]
    op = make_op("L2_NORMALIZATION", inputs, (dtype, (1 / 128, centre(dtype))), version=2)
    assert_agrees(op, [x])


def test_float_norms_agree_with_the_peer() -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 50)).astype(np.float32)
    x[0, 0] = 0
    assert_agrees(make_op("L2_NORMALIZATION", [tensor("x", x)], (DType.FLOAT32, None)), [x])


def test_the_scale_of_a_stored_norm_is_fixed() -> None:
    x = stored_values(DType.INT8, (2, 3))
    op = make_op("L2_NORMALIZATION", [tensor("x", x, (0.1, 0))], (DType.INT8, (0.1, 0)))
    assert broken_rule(op) == "output-scale"
