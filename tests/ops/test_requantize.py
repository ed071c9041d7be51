from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from circlet.formats import save
from circlet.ir import DType, Model, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    activation_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)
from tests.ops.single_op import single_op
from tests.replay import replay
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (0.0, (0, 0)),
        (0.5, (1 << 30, 0)),
        (1.0, (1 << 30, 1)),
        (0.0117, (1608035756, -6)),
        (1 - 2.0**-40, (1 << 30, 1)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
        (3.0, (3 << 29, 2)),
    ],
)
def test_quantize_multiplier_splits_into_mantissa_and_shift(
    factor: float, expected: tuple[int, int]
) -> None:
    assert quantize_multiplier(factor) == expected


def test_doubling_high_mul_rounds_halves_up_and_saturates() -> None:
    half = 1 << 30
    result = saturating_rounding_doubling_high_mul([3, -3, 1, -1, INT32_MIN], half)
    assert result.tolist() == [2, -1, 1, 0, INT32_MIN // 2]
    assert saturating_rounding_doubling_high_mul(INT32_MIN, INT32_MIN) == INT32_MAX


def test_divide_by_power_of_two_rounds_halves_away_from_zero() -> None:
    assert rounding_divide_by_pot([5, -5, 6, -6, 7, -7], 2).tolist() == [1, -1, 2, -2, 2, -2]
    assert rounding_divide_by_pot([9, -9], [0, 1]).tolist() == [9, -5]


def test_accumulators_wrap_like_32_bit_registers() -> None:
    assert wrap_int32(np.array([INT32_MAX + 1, INT32_MIN - 1])).tolist() == [INT32_MIN, INT32_MAX]


def test_two_roundings_stay_within_one_step_of_the_real_product() -> None:
    accumulators = np.random.default_rng(0).integers(-(1 << 24), 1 << 24, 500)
    for factor in (0.0003, 0.017, 0.9, 1.7):
        steps = multiply_by_quantized_multiplier(accumulators, *quantize_multiplier(factor))
        exact = [Fraction(factor) * int(value) for value in accumulators]
        assert max(abs(a - b) for a, b in zip(steps.tolist(), exact, strict=True)) <= 1


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("NONE", (-128, 127)),
        ("RELU", (-10, 127)),
        ("RELU6", (-10, 50)),
        ("RELU_N1_TO_1", (-20, 0)),
    ],
)
def test_activation_bounds_are_stored_values(activation: str, expected: tuple[int, int]) -> None:
    output = Tensor("y", DType.INT8, (1,), Quantization.per_tensor(0.1, -10))
    assert activation_range(activation, output) == expected


def test_bounds_of_a_tiny_scale_stay_in_the_type() -> None:
    output = Tensor("y", DType.INT8, (1,), Quantization.per_tensor(1e-45, 3))
    assert activation_range("RELU6", output) == (3, 127)


STEP = np.float32(0.77)


def near_ties(factor: float) -> npt.NDArray[np.int32]:
    """Accumulators around those that land halfway between two 8-bit steps."""
    halves = np.rint((np.arange(-110, 111) + 0.5) / factor).astype(np.int64)
    around = np.concatenate([halves + offset for offset in (-2, -1, 0, 1, 2)])
    within: npt.NDArray[np.int32] = around[np.abs(around) < INT32_MAX].astype(np.int32)
    return within


def bias_only(kind: str, dtype: DType, per_channel: bool, factor: float) -> tuple[Model, int]:
    """A model whose accumulators are its biases (the input is its zero point), and that zero."""
    weight_scale, zero = np.float32(0.3), 0 if dtype is DType.INT8 else 128
    step = float(STEP) * float(weight_scale)
    biases = near_ties(factor)
    count = biases.size
    shapes = {"CONV_2D": (count, 1, 1, 1), "DEPTHWISE_CONV_2D": (1, 1, 1, count)}
    shape = shapes.get(kind, (count, 1, 1, 1) if kind == "TRANSPOSE_CONV" else (count, 1))
    quant = Quantization.per_tensor(float(weight_scale))
    if per_channel:
        quant = Quantization.per_channel(
            np.full(count, weight_scale), 3 if kind == "DEPTHWISE_CONV_2D" else 0
        )
    weights = constant("w", np.ones(shape, dtype.numpy), quant)
    constants: list[Tensor | None] = [weights, constant("b", biases, Quantization.per_tensor(step))]
    if kind == "TRANSPOSE_CONV":
        constants.insert(0, constant("s", np.array([1, 1, 1, count], np.int32)))
    data = dtype, (1, 1) if kind == "FULLY_CONNECTED" else (1, 1, 1, 1), zero
    model = single_op(
        kind,
        (data[0], data[1], Quantization.per_tensor(float(STEP), zero)),
        constants,
        ATTRS[kind],
        Quantization.per_tensor(step / factor, zero),
        data_index=2 if kind == "TRANSPOSE_CONV" else 0,
    )
    return model, zero


ATTRS: dict[str, object] = {
    "CONV_2D": conv2d_attrs(stride_h=1, stride_w=1),
    "DEPTHWISE_CONV_2D": depthwise_attrs(stride_h=1, stride_w=1, multiplier=1),
    "TRANSPOSE_CONV": transpose_conv_attrs(stride_h=1, stride_w=1),
    "FULLY_CONNECTED": FullyConnectedAttrs(),
}


@pytest.mark.parametrize("kind", ATTRS)
@pytest.mark.parametrize(
    ("dtype", "per_channel"),
    [(DType.INT8, False), (DType.INT8, True), (DType.UINT8, False)],
    ids=["int8", "int8_per_channel", "uint8"],
)
def test_near_ties_round_as_in_litert(
    kind: str, dtype: DType, per_channel: bool, tmp_path: Path
) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    (tmp_path / "models").mkdir()
    (tmp_path / "golden").mkdir()
    for factor in (5.3e-8, 6.17e-8, 2.0**-9, 3.1e-4):
        model, zero = bias_only(kind, dtype, per_channel, factor)
        path = tmp_path / "models" / "ties.tflite"
        save(model, path)
        shape = model.main.inputs[0].static_shape
        inputs = {"rand/in/0": np.full(shape, zero, dtype.numpy)}
        np.savez(tmp_path / "golden" / "ties.tflite.npz", **inputs)  # type: ignore[arg-type]
        (row,) = replay(path, isolated=False)
        assert (row.mismatches, row.skipped) == (0, "")
        assert row.values > 1000
