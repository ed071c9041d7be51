from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.cpu.lower.integers.requantisation import FIXED_RELU, fixed_point, in_order
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tests.backends.cpu.harness import AND_V3, AND_V4, check_native, runnable
from tests.windows import conv2d_attrs

Int64 = npt.NDArray[np.int64]


def _high_mul_by_definition(a: int, b: int) -> int:
    """gemmlowp's form: a nudge by sign, then division that truncates."""
    if a == b == INT32_MIN:
        return INT32_MAX
    nudged = a * b + ((1 << 30) if a * b >= 0 else 1 - (1 << 30))
    return nudged >> 31 if nudged >= 0 else -(-nudged >> 31)


def test_flooring_half_up_is_the_definition_of_the_doubling_high_product() -> None:
    rng = np.random.default_rng(2)
    edges = [INT32_MIN, INT32_MIN + 1, -(1 << 30), -1, 0, 1, 1 << 30, INT32_MAX]
    values = [*edges, *(int(v) for v in rng.integers(INT32_MIN, INT32_MAX, 60))]
    for a in values:
        wanted = [_high_mul_by_definition(a, b) for b in values]
        assert saturating_rounding_doubling_high_mul(a, values).tolist() == wanted


def test_one_addend_and_one_shift_round_twice() -> None:
    rng = np.random.default_rng(4)
    mantissa = rng.integers(1 << 30, 1 << 31, 4000)
    mantissa[:500] = 1 << 30
    right = rng.integers(1, 20, 4000)
    values = _near_ties(mantissa, right, rng)
    wanted = multiply_by_quantized_multiplier(values, mantissa, -right)
    addend = (np.int64(1) << (right - 1 + 32)) + (1 << 31)
    twice = 2 * mantissa - (1 << 32)
    high = ((values * twice + addend) >> 32) + values + (values >> 63)
    np.testing.assert_array_equal(high >> right, wanted)


def test_half_of_a_shorter_shift_rounds_halves_away_from_zero() -> None:
    rng = np.random.default_rng(7)
    edges = [-INT32_MAX, 1 - INT32_MAX, -(1 << 30), -3, -2, -1, 0, 1, 2, 3, 1 << 30, INT32_MAX]
    values = np.array([*edges, *rng.integers(-INT32_MAX, INT32_MAX, 4000)], np.int32)
    for exponent in range(1, 32):
        once = (values + (values >> 31)) >> (exponent - 1)
        got, wanted = once - (once >> 1), rounding_divide_by_pot(values, exponent)
        np.testing.assert_array_equal(got, wanted, err_msg=str(exponent))


def test_the_high_half_of_one_product_rounds_twice_above_zero() -> None:
    rng = np.random.default_rng(5)
    mantissa = rng.integers(1 << 30, 1 << 31, 4000)
    mantissa[:2000] = (mantissa[:2000] >> 9 << 9) | (1 << rng.integers(0, 10, 2000))
    mantissa[:500] = 1 << 30
    right = rng.integers(1, 20, 4000)
    values = np.abs(_near_ties(mantissa, right, rng))
    rounding = (1 << (right + 30)) + (1 << 30)
    power = mantissa & -mantissa
    start = np.where(mantissa // power * (rounding >> 30) % 4 == 3, -1, 1) * ((1 << 30) // power)
    assert ((start * mantissa - rounding) % (1 << 32) == 0).all()
    high = ((values + start) * mantissa >> 32) + (rounding - start * mantissa >> 32)
    wanted = multiply_by_quantized_multiplier(values, mantissa, -right)
    np.testing.assert_array_equal(high >> (right - 1), wanted)


@pytest.mark.parametrize("name", AND_V4)
@pytest.mark.parametrize(
    "least_shift, activation",
    [
        (1, "NONE"),
        (-4, "NONE"),
        (2, "RELU"),
        pytest.param(1, "RELU", marks=pytest.mark.slow),
        pytest.param(-4, "RELU", marks=pytest.mark.slow),
    ],
)
def test_ties_and_extremes_round_as_the_record_of_the_operator_does(
    name: str, least_shift: int, activation: str
) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    rng = np.random.default_rng(6)
    right = rng.integers(least_shift, 18, 2048)
    mantissa = rng.integers(1 << 23, 1 << 24, 2048) << 7
    mantissa[::5] = 1 << 30
    bias = _near_ties(mantissa, np.maximum(right, 1), rng)
    if least_shift < 1:
        bias[::7] = rng.integers(INT32_MIN, INT32_MAX, bias[::7].size)
        bias[:2] = INT32_MIN, INT32_MAX
    graph = _bias_graph(bias, mantissa * 2.0 ** (-31 - right), activation)
    check_native(graph, [np.zeros((1, 2, 3, 1), np.int8)], target)


@pytest.mark.parametrize("name", AND_V3)
def test_channels_of_one_output_leave_the_others_their_form(name: str) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    bias = np.array([-500, 0, 7, 900, INT32_MAX - 300, 300 - INT32_MAX, 1 << 29, -5, 3])
    factors = np.array([0.02, 0.3, 0.05, 0.001, 1e-9, 1e-9, 2.0**-28, 1e-12, 0.0])
    graph = _bias_graph(bias, factors, "RELU")
    (op,) = graph.ops
    reach = np.abs(bias) + 255
    assert fixed_point(op, bias, reach, in_order(9, 16, 16)).form == FIXED_RELU
    check_native(graph, [np.zeros((1, 2, 3, 1), np.int8)], target)


def _near_ties(mantissa: Int64, right: Int64, rng: np.random.Generator) -> Int64:
    """Accumulators whose products lie at or next to halves between output steps."""
    halves = rng.integers(-260, 260, right.size) * 2 + 1
    exact = halves * 2.0 ** (right + 30) / mantissa
    return np.asarray(np.rint(exact), np.int64) + rng.integers(-1, 2, right.size)


def _bias_graph(bias: Int64, factors: npt.NDArray[np.float64], activation: str) -> Graph:
    """A 1x1 convolution over zeros: accumulators are the bias, outputs its requantised values."""
    made = builder()
    image = made.input("x", DType.INT8, (1, 2, 3, 1), Quantization.per_tensor(1.0))
    scales = Quantization.per_channel(factors.astype(np.float32), 0)
    weights = made.constant("w", np.ones((bias.size, 1, 1, 1), np.int8), scales)
    operands = [image, weights, made.constant("b", bias.astype(np.int32))]
    attrs = conv2d_attrs("VALID", 1, 1, activation=activation)
    output = made.op("CONV_2D", operands, attrs, name="y", quant=Quantization.per_tensor(1.0, -5))
    return made.output(output).build()
