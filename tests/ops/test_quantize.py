from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.quantize import CastAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    centre,
    make_op,
    own_result,
    stored_values,
    tensor,
)

F32 = DType.FLOAT32
QUANTISED = [DType.INT8, DType.UINT8, DType.INT16]


def scaled(dtype: DType, scale: float, zero: int) -> tuple[float, int]:
    return scale, 0 if dtype is DType.INT16 else zero + centre(dtype)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", QUANTISED)
def test_quantised_floats_agree(dtype: DType) -> None:
    x = np.random.default_rng(0).normal(0, 3, (50, 41)).astype(np.float32)
    x[0] = np.arange(-20, 21, dtype=np.float32) * np.float32(0.015)
    op = make_op("QUANTIZE", [tensor("x", x)], (dtype, scaled(dtype, 0.03, -7)))
    assert_agrees(op, [x])


@pytest.mark.parametrize("source", QUANTISED)
@pytest.mark.parametrize("result", QUANTISED)
@pytest.mark.parametrize("scale", [0.011, 0.05, 0.43])
def test_requantised_values_agree(scale: float, result: DType, source: DType) -> None:
    if (source, result) == (DType.INT16, DType.UINT8):
        pytest.skip("LiteRT has no such kernel")
    x = stored_values(source, (3, 400))
    inputs = [tensor("x", x, scaled(source, 0.05, 12))]
    assert_agrees(make_op("QUANTIZE", inputs, (result, scaled(result, scale, -3)), version=2), [x])


def test_equal_scales_move_bytes_between_types() -> None:
    x = np.arange(256, dtype=np.uint8)[None]
    assert_agrees(make_op("QUANTIZE", [tensor("x", x, (0.1, 128))], (DType.INT8, (0.1, 0))), [x])


@pytest.mark.parametrize("dtype", QUANTISED)
def test_dequantised_values_agree(dtype: DType) -> None:
    x = stored_values(dtype, (5, 99))
    op = make_op("DEQUANTIZE", [tensor("x", x, scaled(dtype, 0.037, 9))], (F32, None), version=3)
    assert_agrees(op, [x], bar=0)


def test_half_floats_widen() -> None:
    x = np.random.default_rng(0).normal(0, 3, (5, 99)).astype(np.float16)
    assert_agrees(make_op("DEQUANTIZE", [tensor("x", x)], (F32, None), version=3), [x], bar=0)


def test_channels_have_their_own_scales() -> None:
    x = stored_values(DType.INT8, (4, 3, 2))
    quant = Quantization.per_channel([0.5, 0.25, 2.0], axis=1, zero_point=[0, 3, -5])
    op = make_op("DEQUANTIZE", [tensor("x", x, quant)], (F32, None), version=5)
    assert_agrees(op, [x], bar=0)


@pytest.mark.parametrize("result", [F32, DType.INT32, DType.INT64, DType.UINT8, DType.INT8])
@pytest.mark.parametrize("source", [F32, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL])
def test_cast_agrees(source: DType, result: DType) -> None:
    x = np.random.default_rng(0).uniform(0, 99, (3, 7)).astype(source.numpy)
    attrs = CastAttrs(source.name, result.name)
    assert_agrees(make_op("CAST", [tensor("x", x)], (result, None), attrs), [x])


def test_float_out_of_range_saturates_when_cast() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, -1.9], np.float32)
    op = make_op("CAST", [tensor("x", x)], (DType.INT32, None), CastAttrs("FLOAT32", "INT32"))
    top, bottom = 2**31 - 1, -(2**31)
    np.testing.assert_array_equal(own_result(op, [x]), [0, top, bottom, top, bottom, -1])


def test_not_a_number_is_stored_as_zero_point() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    op = make_op("QUANTIZE", [tensor("x", x)], (DType.INT8, (0.1, 5)))
    np.testing.assert_array_equal(own_result(op, [x]), [5, 127, -128])


def test_rules_refuse_missing_or_misfitting_scales() -> None:
    x = np.zeros((2, 3), np.int8)
    assert broken_rule(make_op("DEQUANTIZE", [tensor("x", x)], (F32, None))) == "quantised"
    assert broken_rule(make_op("QUANTIZE", [tensor("x", x, (0.1, 0))], (DType.INT8, None))) == (
        "quantised"
    )
    three = Quantization.per_channel([0.1, 0.2, 0.3], axis=0)
    assert broken_rule(make_op("DEQUANTIZE", [tensor("x", x, three)], (F32, None))) == "quantised"
    far = make_op("QUANTIZE", [tensor("x", x, (1e6, 0))], (DType.INT8, (1e-6, 0)))
    assert broken_rule(far) == "output-scale"
