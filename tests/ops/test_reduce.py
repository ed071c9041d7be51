from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType
from circlet.ops import find
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    centre,
    has_reference,
    make_op,
    own_result,
    peer_result,
    stored_values,
    tensor,
)

AXES = [(1, 2), (0,), (-1,), (0, 1, 2, 3), (2, 2, -2)]
BYTES = (DType.INT8, DType.UINT8)


def axes(values: tuple[int, ...]) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("reduced", AXES)
@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX"])
def test_quantised_reduction_agrees(
    kind: str, reduced: tuple[int, ...], keep: bool, dtype: DType
) -> None:
    x, zero = stored_values(dtype, (2, 7, 9, 5)), 0 if dtype is DType.INT16 else -4
    quant = (0.031, zero + centre(dtype))
    result = quant if kind == "REDUCE_MAX" else (0.57, zero + centre(dtype))
    inputs = [tensor("x", x, quant), tensor("axes", axes(reduced), constant=True)]
    version = 3 if dtype is DType.INT16 and kind != "SUM" else 2
    op = make_op(kind, inputs, (dtype, result), ReducerAttrs(keep), version)
    steps = 0 if has_reference(op) else 1
    difference = peer_result(op, [x]).astype(np.int64) - own_result(op, [x])
    assert np.abs(difference).max() <= steps


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32, DType.INT64])
@pytest.mark.parametrize("reduced", AXES)
@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"])
def test_plain_reduction_agrees(kind: str, reduced: tuple[int, ...], dtype: DType) -> None:
    most = 2 if kind == "REDUCE_PROD" else 99
    x = np.random.default_rng(1).uniform(-most, most, (2, 3, 4, 5)).astype(dtype.numpy)
    inputs = [tensor("x", x), tensor("axes", axes(reduced), constant=True)]
    assert_agrees(make_op(kind, inputs, (dtype, None)), [x])


@pytest.mark.parametrize("reduced", AXES)
@pytest.mark.parametrize("kind", ["REDUCE_ANY", "REDUCE_ALL"])
def test_reduction_of_logic_agrees(kind: str, reduced: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).uniform(size=(2, 3, 4, 5)) > (0.1 if kind == "REDUCE_ALL" else 0.9)
    inputs = [tensor("x", x), tensor("axes", axes(reduced), constant=True)]
    assert_agrees(make_op(kind, inputs, (DType.BOOL, None)), [x])


@pytest.mark.parametrize("dtype", [DType.FLOAT32, *BYTES])
@pytest.mark.parametrize("out", [DType.INT32, DType.INT64])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize(("kind", "attrs"), [("ARG_MAX", ArgAttrs), ("ARG_MIN", ArgAttrs)])
def test_position_of_the_first_extreme_agrees(
    kind: str, attrs: type, axis: int, out: DType, dtype: DType
) -> None:
    x = np.random.default_rng(2).integers(0, 4, (3, 6, 11)).astype(dtype.numpy)
    quant = None if dtype is DType.FLOAT32 else (0.1, 0)
    inputs = [tensor("x", x, quant), tensor("axis", axes((axis,)), constant=True)]
    assert_agrees(make_op(kind, inputs, (out, None), attrs(out.name), 2), [x])


def test_axes_computed_at_run_time_are_checked() -> None:
    x = np.ones((2, 3), np.float32)
    op = make_op("SUM", [tensor("x", x), tensor("axes", axes((1,)))], (DType.FLOAT32, None))
    op.outputs[0].shape = (None,)
    record = find("SUM")
    assert record is not None
    assert record.infer(op)[0].shape == (None,)
    np.testing.assert_array_equal(record.evaluate(op, [x, axes((1,))])[0], [3, 3])
    with pytest.raises(GraphError):
        record.evaluate(op, [x, axes((2,))])


def test_sum_of_nothing_is_zero() -> None:
    x = np.ones((2, 0), np.float32)
    inputs = [tensor("x", x), tensor("axes", axes((1,)), constant=True)]
    np.testing.assert_array_equal(
        own_result(make_op("SUM", inputs, (DType.FLOAT32, None)), [x]), [0, 0]
    )


def test_rules_refuse_axes_and_scales_out_of_reach() -> None:
    x = tensor("x", np.ones((2, 3), np.float32))
    far = tensor("axes", axes((2,)), constant=True)
    assert broken_rule(make_op("MEAN", [x, far], (DType.FLOAT32, None))) == "axes"
    empty = tensor("x", np.ones((2, 0), np.float32))
    last = tensor("axes", axes((1,)), constant=True)
    assert broken_rule(make_op("MEAN", [empty, last], (DType.FLOAT32, None))) == "not-empty"
    byte = tensor("x", np.ones((2, 3), np.int8), (1e9, 0))
    assert broken_rule(make_op("MEAN", [byte, last], (DType.INT8, (1e-9, 0)))) == "output-scale"
    attrs = ArgAttrs("INT32")
    assert broken_rule(make_op("ARG_MAX", [x, last], (DType.INT64, None), attrs)) == "output-type"
    attrs = ArgAttrs("INT64")
    assert broken_rule(make_op("ARG_MAX", [empty, last], (DType.INT64, None), attrs)) == "not-empty"
