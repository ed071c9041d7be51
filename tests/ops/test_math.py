from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops import find
from circlet.ops.math import FakeQuantAttrs
from tests.ops.one_op import assert_agrees, broken_rule, make_op, own_result, tensor

F32, I32 = DType.FLOAT32, DType.INT32


def floats(seed: int, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((3, 40)) * spread).astype(np.float32)


@pytest.mark.parametrize("kind", ["SIN", "COS", "CEIL", "ROUND", "SIGN"])
def test_functions_of_one_number_agree_with_the_peer(kind: str) -> None:
    x = np.append(floats(1, 20).ravel(), [0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5]).astype(np.float32)
    assert_agrees(make_op(kind, [tensor("x", x)], (F32, None)), [x])


@pytest.mark.parametrize("kind", ["ATAN2", "FLOOR_DIV", "FLOOR_MOD"])
def test_functions_of_two_numbers_agree_with_the_peer(kind: str) -> None:
    a, b = np.append(floats(1), [1, 7.5, -7.5, 6]), np.append(floats(2), [0.1, 2.5, 2.5, -3])
    a, b = a.astype(np.float32), b.astype(np.float32)
    op = make_op(
        kind, [tensor("a", a), tensor("b", b)], (F32, None), version=1 if kind == "ATAN2" else 2
    )
    assert_agrees(op, [a, b])


def test_powers_agree_with_the_peer() -> None:
    a, b = np.abs(floats(1)), floats(2)
    assert_agrees(make_op("POW", [tensor("a", a), tensor("b", b)], (F32, None)), [a, b])
    base = np.array([-2, -1, 0, 1, 3], np.int32)
    power = np.array([[0], [1], [5]], np.int32)
    op = make_op("POW", [tensor("a", base), tensor("b", power)], (I32, None))
    assert_agrees(op, [base, power])


@pytest.mark.parametrize("kind", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_whole_quotients_agree_with_the_peer(kind: str) -> None:
    a = np.arange(-9, 10, dtype=np.int32)
    b = np.array([[-4], [-1], [1], [3], [1 << 30]], np.int32)
    op = make_op(kind, [tensor("a", a), tensor("b", b)], (I32, None), version=2)
    assert_agrees(op, [a, b])


def test_a_divisor_of_zero_gives_zero() -> None:
    a, b = np.array([5, -5, 0], np.int32), np.zeros(3, np.int32)
    for kind in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        op = make_op(kind, [tensor("a", a), tensor("b", b)], (I32, None))
        assert not own_result(op, [a, b]).any()


@pytest.mark.parametrize("dtype", [F32, I32])
def test_sums_of_many_agree_with_the_peer(dtype: DType) -> None:
    arrays = [floats(seed, 50).astype(dtype.numpy) for seed in range(3)]
    inputs = [tensor(f"x{i}", array) for i, array in enumerate(arrays)]
    assert_agrees(make_op("ADD_N", inputs, (dtype, None)), arrays)


def test_fake_quantisation_agrees_with_the_peer() -> None:
    x = floats(4, 4)
    attrs = FakeQuantAttrs(-2.3, 6.1, 8)
    assert_agrees(make_op("FAKE_QUANT", [tensor("x", x)], (F32, None), attrs), [x])


def test_a_range_without_zero_is_refused() -> None:
    op = make_op("FAKE_QUANT", [tensor("x", floats(1))], (F32, None), FakeQuantAttrs(1, 2, 8))
    assert broken_rule(op) == "range"


@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (2.0, [9.0, 0.0, 0.0, np.inf, np.inf, np.nan]),
        (3.0, [-27.0, 0.0, -0.0, np.inf, -np.inf, np.nan]),
        (4.0, [81.0, 0.0, 0.0, np.inf, np.inf, np.nan]),
        (-1.0, [-1 / 3, np.inf, -np.inf, 0.0, -0.0, np.nan]),
        (0.5, [np.nan, 0.0, 0.0, np.inf, np.inf, np.nan]),
        (-0.5, [np.nan, np.inf, np.inf, 0.0, 0.0, np.nan]),
    ],
)
def test_constant_powers_are_those_of_c(exponent: float, wanted: list[float]) -> None:
    """By products and roots, with the special values that C's standard gives pow."""
    base = np.array([-3.0, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    power = tensor("b", np.array(exponent, np.float32), constant=True)
    op = make_op("POW", [tensor("a", base), power], (F32, None))
    got = own_result(op, [base])
    np.testing.assert_allclose(got, np.array(wanted, np.float32), rtol=1e-6)
    known = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])
    record = find("POW")
    assert record is not None
    assert record.scalar is not None
    assert "pow" not in repr(record.scalar(op))
