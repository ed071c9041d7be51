from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType
from circlet.ops import find
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.softmax import SoftmaxAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    centre,
    make_op,
    own_result,
    stored_values,
    tensor,
)

Quant = tuple[float, int]

ATTRS = {"ADD": AddAttrs, "SUB": SubAttrs, "MUL": MulAttrs}
SCALES = [
    ((0.02, -3), (0.05, 10), (0.06, -20)),
    ((0.0039215, -128), (0.7, 5), (0.9, 127)),
    ((0.11, 0), (0.0007, -77), (0.21, 3)),
]
BYTES = (DType.INT8, DType.UINT8)


def uint8(quant: tuple[float, int], dtype: DType) -> tuple[float, int]:
    return quant[0], quant[1] + centre(dtype)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_every_pair_of_bytes_gives_the_peers_result(
    kind: str, activation: str, scales: tuple[Quant, Quant, Quant], dtype: DType
) -> None:
    column = np.arange(256, dtype=np.uint8).view(dtype.numpy)[:, None]
    row = np.ascontiguousarray(column.T)
    first, second, result = (uint8(quant, dtype) for quant in scales)
    op = make_op(
        kind,
        [tensor("a", column, first), tensor("b", row, second)],
        (dtype, result),
        ATTRS[kind](activation),
        version=2,
    )
    assert_agrees(op, [column, row])


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_int16_values_give_the_peers_result(kind: str) -> None:
    a, b = (stored_values(DType.INT16, (4, 99), seed) for seed in (1, 2))
    inputs = [tensor("a", a, (0.0021, 0)), tensor("b", b, (0.00035, 0))]
    attrs = MulAttrs() if kind == "MUL" else ATTRS[kind](pot_scale_int16=False)
    assert_agrees(make_op(kind, inputs, (DType.INT16, (0.0023, 0)), attrs, 4), [a, b])


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32, DType.INT64])
def test_plain_numbers_broadcast_as_the_peers_do(kind: str, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-90, 90, (2, 3, 1, 5)).astype(dtype.numpy)
    b = rng.integers(-90, 90, (4, 1)).astype(dtype.numpy)
    op = make_op(kind, [tensor("a", a), tensor("b", b)], (dtype, None), version=4)
    assert_agrees(op, [a, b])


@pytest.mark.parametrize("kind", ["ADD", "MUL", "DIV"])
@pytest.mark.parametrize("activation", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_float_activation_clamps(kind: str, activation: str) -> None:
    a, b = (np.random.default_rng(s).normal(0, 4, (3, 17)).astype(np.float32) for s in (5, 6))
    record = find(kind)
    assert record is not None
    op = make_op(
        kind,
        [tensor("a", a), tensor("b", b)],
        (DType.FLOAT32, None),
        record.attrs(activation=activation),
    )
    assert_agrees(op, [a, b])


@pytest.mark.parametrize("kind", ["ABS", "NEG", "SQRT", "RSQRT", "EXP", "LOG", "FLOOR", "SQUARE"])
def test_function_of_one_float_agrees(kind: str) -> None:
    x = np.random.default_rng(7).uniform(0.01, 9, (3, 33)).astype(np.float32)
    assert_agrees(make_op(kind, [tensor("x", x)], (DType.FLOAT32, None)), [x])


def test_squared_difference_agrees() -> None:
    a, b = (np.random.default_rng(s).normal(0, 4, (3, 17)).astype(np.float32) for s in (5, 6))
    op = make_op("SQUARED_DIFFERENCE", [tensor("a", a), tensor("b", b)], (DType.FLOAT32, None))
    assert_agrees(op, [a, b])


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ((0.02, 3), (0.03, -7), (0.04, -128)),
        ((0.02, 3), (0.02, 3), (1.5, -100)),
        ((0.02, 0), (0.03, -7), (1e-5, -128)),
        ((0.02, 127), (0.001, -128), (0.1, -5)),
    ],
)
def test_squared_difference_of_every_pair_agrees(
    first: tuple[float, int], second: tuple[float, int], result: tuple[float, int]
) -> None:
    values = np.arange(-128, 128).astype(np.int8)
    a, b = np.repeat(values, 256)[None], np.tile(values, 256)[None]
    inputs = [tensor("a", a, first), tensor("b", b, second)]
    assert_agrees(make_op("SQUARED_DIFFERENCE", inputs, (DType.INT8, result), version=2), [a, b])


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize(
    ("kind", "first", "second", "result"),
    [
        ("MUL", 0.0235, 0.0039, 2.97e-35),
        ("MUL", 0.5, 0.25, 1e-9),
        ("MUL", 3e-35, 1.2e-35, 0.0235),
        ("ADD", 3e-35, 1.2e-35, 0.0235),
        ("ADD", 0.02, 1e-36, 0.02),
        ("SUB", 3e-35, 1.2e-35, 3e-35),
    ],
)
def test_scales_that_training_made_of_nothing_agree(
    kind: str, first: float, second: float, result: float, dtype: DType
) -> None:
    """Quantisation-aware training gives them to what was 0 all the time."""
    a, b = (stored_values(dtype, (4, 999), seed) for seed in (1, 2))
    inputs = [tensor("a", a, (first, 3)), tensor("b", b, (second, 7))]
    assert_agrees(make_op(kind, inputs, (dtype, (result, 5)), ATTRS[kind](), version=2), [a, b])


def test_int32_sum_wraps_around() -> None:
    a = np.array([2**31 - 1, -(2**31)], np.int32)
    b = np.array([1, -1], np.int32)
    op = make_op("ADD", [tensor("a", a), tensor("b", b)], (DType.INT32, None))
    np.testing.assert_array_equal(own_result(op, [a, b]), [-(2**31), 2**31 - 1])


def test_rules_refuse_what_the_kernel_cannot_compute() -> None:
    x = np.zeros((2, 3), np.int8)
    a, b = tensor("a", x, (0.5, 0)), tensor("b", x, (0.5, 0))
    assert broken_rule(make_op("ADD", [a, tensor("b", x)], (DType.INT8, (0.5, 0)))) == "quantised"
    assert broken_rule(make_op("ADD", [a, b], (DType.INT8, (1e-9, 0)))) == "output-scale"
    assert broken_rule(make_op("MUL", [a, b], (DType.INT8, (float("nan"), 0)))) == "quantised"
    tanh = AddAttrs("TANH")
    assert broken_rule(make_op("ADD", [a, b], (DType.INT8, (0.5, 0)), tanh)) == "activation"
    mixed = make_op("ADD", [a, tensor("b", x.astype(np.uint8), (0.5, 0))], (DType.INT8, (0.5, 0)))
    assert broken_rule(mixed) == "same-types"


def test_sizes_that_do_not_broadcast_are_refused() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    with pytest.raises(GraphError):
        make_op("ADD", [tensor("a", a), tensor("b", b)], (DType.FLOAT32, None))


def test_unknown_sizes_broadcast() -> None:
    assert broadcast_shape((None, 3), (1, 3)) == (None, 3)
    assert broadcast_shape((None, 3), (7, 1)) == (7, 3)
    assert broadcast_shape((None,), (None,)) == (None,)
    assert broadcast_shape((2, None), (3, 1)) is None


@pytest.mark.parametrize("least", [1e30, 3.4e38])
def test_scores_may_have_the_scale_of_the_mask_that_joins_them(least: float) -> None:
    scores = stored_values(DType.INT8, (4, 9))
    factor, wide = np.array(127, np.int8), (least / 255, 127)
    given = [tensor("x", scores, (0.1, -2)), tensor("f", factor, (0.001, -128), constant=True)]
    assert_agrees(make_op("MUL", given, (DType.INT8, wide)), [scores])
    softmax = SoftmaxAttrs(1.0)
    op = make_op("SOFTMAX", [tensor("x", scores, wide)], (DType.INT8, (1 / 256, -128)), softmax)
    assert_agrees(op, [scores])
