"""Ops on bits and places, quotients of bytes and joined rows, beside LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.bits import BucketizeAttrs
from tests.ops.one_op import assert_agrees, broken_rule, make_op, own_result, stored_values, tensor

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32])
def test_bits_are_crossed_and_shifted(dtype: DType) -> None:
    first, second = stored_values(dtype, (3, 5)), stored_values(dtype, (3, 5), 1)
    given = [tensor("a", first), tensor("b", second)]
    assert_agrees(make_op("BITWISE_XOR", given, (dtype, None)), [first, second])
    counts = np.arange(15).reshape(3, 5).astype(dtype.numpy) * 3
    given = [tensor("a", first), tensor("b", counts)]
    assert_agrees(make_op("RIGHT_SHIFT", given, (dtype, None)), [first, counts])


@pytest.mark.parametrize(
    ("values", "result"),
    [
        (RNG.standard_normal((2, 3)).astype(np.float32), DType.INT32),
        (RNG.standard_normal((2, 3)).astype(np.float32), DType.UINT8),
        (stored_values(DType.INT8, (3, 4)), DType.FLOAT32),
        (stored_values(DType.INT32, (3, 2)), DType.INT64),
    ],
    ids=["same size", "smaller", "larger", "pairs"],
)
def test_bits_are_read_as_another_type(values: np.ndarray, result: DType) -> None:
    op = make_op("BITCAST", [tensor("x", values)], (result, None))
    actual = own_result(op, [values])
    assert actual.tobytes() == values.tobytes()
    if result.bits != 8:
        assert_agrees(op, [values])


def test_bits_that_do_not_fill_an_element_are_refused() -> None:
    op = make_op("BITCAST", [tensor("x", np.zeros((2, 4), np.int8))], (DType.INT32, None))
    op.inputs = [tensor("x", np.zeros((2, 3), np.int8))]
    assert broken_rule(op) == "last-size"


@pytest.mark.parametrize("values", [RNG.uniform(-3, 3, 40), np.arange(-9, 9)])
def test_buckets_are_counted_from_their_starts(values: np.ndarray) -> None:
    values = values.astype(np.float32 if values.dtype.kind == "f" else np.int32)
    values[:3] = (-2, 0, 1)
    attrs = BucketizeAttrs((-2.0, -0.5, 0.0, 1.0, 1.0))
    assert_agrees(make_op("BUCKETIZE", [tensor("x", values)], (DType.INT32, None), attrs), [values])


def test_sizes_are_spread_over_each_other() -> None:
    pair = [np.array((5, 1, 3), np.int64), np.array((4, 1), np.int64)]
    op = make_op(
        "BROADCAST_ARGS", [tensor("a", pair[0]), tensor("b", pair[1])], (DType.INT64, None)
    )
    assert_agrees(op, pair)
    np.testing.assert_array_equal(own_result(op, pair), (5, 4, 3))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    "scales",
    [(0.02, 0.03, 0.01), (0.1, 0.1, 0.1), (0.5, 0.004, 1.7), (900.0, 1e-4, 3.0), (1e-3, 90.0, 3.0)],
)
def test_every_quotient_of_bytes_is_litert_s(
    dtype: DType, scales: tuple[float, float, float]
) -> None:
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    zero = 3 if dtype is DType.INT8 else 131
    first, second = np.repeat(every, 255), np.tile(every[every != zero], 256)
    quants = [(scale, zero) for scale in scales]
    given = [tensor("a", first, quants[0]), tensor("b", second, quants[1])]
    assert_agrees(make_op("DIV", given, (dtype, quants[2])), [first, second])


@pytest.mark.parametrize("kind", ["SUM", "PROD", "MAX", "MIN"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_rows_of_a_segment_are_joined(kind: str, dtype: type) -> None:
    data: np.ndarray = (RNG.standard_normal((2, 5, 3)) * 4).astype(dtype)
    ids = np.array([[3, 0, -1, 3, 5], [0, 5, 1, 1, 1]], np.int32)
    count = tensor("count", np.array(7, np.int32), constant=True)
    given = [tensor("x", data), tensor("ids", ids), count]
    op = make_op(f"UNSORTED_SEGMENT_{kind}", given, (DType.of(data), None))
    assert op.outputs[0].shape == (7, 3)
    assert_agrees(op, [data, ids])


def test_constant_ids_say_how_many_rows_come_out() -> None:
    data = RNG.standard_normal((5, 3)).astype(np.float32)
    ids = tensor("ids", np.array([0, 0, 2, 2, 2], np.int32), constant=True)
    op = make_op("SEGMENT_SUM", [tensor("x", data), ids], (DType.FLOAT32, None))
    assert op.outputs[0].shape == (3, 3)
    wanted = [data[:2].sum(0), np.zeros(3), data[2:].sum(0)]
    np.testing.assert_allclose(own_result(op, [data]), wanted, rtol=1e-6)


def test_constant_ids_that_fall_are_refused() -> None:
    ids = tensor("ids", np.array([0, 2, 1], np.int32), constant=True)
    data = tensor("x", np.zeros((3, 2), np.float32))
    assert broken_rule(make_op("SEGMENT_SUM", [data, ids], (DType.FLOAT32, None))) == "rising"


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_stacks_of_float_rows_meet_stored_weights(asymmetric: bool, turned: bool) -> None:
    x = RNG.standard_normal((3, 4, 8)).astype(np.float32)
    w = stored_values(DType.INT8, (3, 6, 8) if turned else (3, 8, 6))
    given = [tensor("x", x), tensor("w", w, (0.02, 0), constant=True)]
    attrs = BatchMatMulAttrs(False, turned, asymmetric)
    assert_agrees(make_op("BATCH_MATMUL", given, (DType.FLOAT32, None), attrs, 4), [x], 1e-5)
