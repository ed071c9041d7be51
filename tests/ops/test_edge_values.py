"""Infinities, scalars, empty sizes and other edges, by numbers that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.ops.reduce import ReducerAttrs
from tests.ops.one_op import broken_rule, make_op, own_result, tensor

F32, INF = DType.FLOAT32, np.inf


def test_the_sign_of_infinity_is_a_number() -> None:
    x = np.array([INF, -INF, 0, -0.0, 1e-45, np.nan], np.float32)
    made = own_result(make_op("SIGN", [tensor("x", x)], (F32, None)), [x])
    np.testing.assert_array_equal(made, [1, -1, 0, 0, 1, np.nan])


@pytest.mark.parametrize(("kind", "wanted"), [("REAL", 2.0), ("IMAG", -3.0)])
def test_parts_of_a_scalar_are_scalars(kind: str, wanted: float) -> None:
    x = np.array(2 - 3j, np.complex64)
    made = own_result(make_op(kind, [tensor("x", x)], (F32, None)), [x])
    assert made.shape == () and made == wanted


@pytest.mark.parametrize(("kind", "wanted"), [("EQUAL", True), ("NOT_EQUAL", False)])
def test_equality_of_16_bits_is_that_of_real_numbers(kind: str, wanted: bool) -> None:
    left, right = np.array([100], np.int16), np.array([50], np.int16)
    operands = [tensor("a", left, (0.25, 0)), tensor("b", right, (0.5, 0))]
    made = own_result(make_op(kind, operands, (DType.BOOL, None)), [left, right])
    np.testing.assert_array_equal(made, [wanted])


def test_rows_of_unsigned_bytes_hold_signed_numbers() -> None:
    ids, table = np.array([1], np.int32), np.array([[1, 2], [255, 128]], np.uint8)
    operands = [tensor("ids", ids), tensor("table", table, (0.5, 0), constant=True)]
    made = own_result(make_op("EMBEDDING_LOOKUP", operands, (F32, None)), [ids])
    np.testing.assert_array_equal(made, [[-0.5, -64.0]])


@pytest.mark.parametrize(("kind", "wanted"), [("MAX", 3.0), ("MIN", 2.0)])
def test_segments_skip_what_is_not_a_number(kind: str, wanted: float) -> None:
    data, ids = np.array([2, np.nan, 3], np.float32), np.zeros(3, np.int32)
    count = np.array(1, np.int32)
    operands = [tensor("x", data), tensor("ids", ids), tensor("n", count, constant=True)]
    made = own_result(make_op(f"UNSORTED_SEGMENT_{kind}", operands, (F32, None)), [data, ids])
    np.testing.assert_array_equal(made, [wanted])


def test_axes_of_a_run_decide_the_rank_that_a_file_leaves_open() -> None:
    b = builder()
    x, axes = b.input("x", F32, (2, 3, 4)), b.input("axes", DType.INT32, (2,))
    y = b.tensor("y", F32, ())
    y.has_rank = False
    b.graph.tensors.remove(y)  # listed again with its operator
    b.op_many("SUM", [x, axes], [y], ReducerAttrs(keep_dims=False))
    session = Session(b.output(y).model(), backends=("reference",), cache=False)
    given = [np.ones((2, 3, 4), np.float32), np.array([0, -1], np.int32)]
    np.testing.assert_array_equal(session.run(given)["y"], [8, 8, 8])


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
def test_shares_of_no_elements_are_none(kind: str) -> None:
    made = _of_onnx(kind, np.zeros((2, 0, 3), np.float32), F32, (("axis", 1),))
    assert made.shape == (2, 0, 3)


@pytest.mark.parametrize("kind", ["CumSum", "CumProd"])
def test_sums_before_no_elements_are_none(kind: str) -> None:
    b = builder()
    x, axis = b.input("x", F32, (2, 0)), b.input("axis", DType.INT64, ())
    made = Tensor("y", F32, (2, 0), None)
    attrs = OnnxAttrs((("exclusive", 1),), 20)
    b.op_many("CUSTOM", [x, axis], [made], attrs, custom_code=f"{PREFIX}{kind}")
    given: list[np.ndarray] = [np.zeros((2, 0), np.float32), np.array(1, np.int64)]
    assert evaluate_graph(b.output(made).build(), given)[0].shape == (2, 0)


@pytest.mark.parametrize(("value", "count"), [(0.0, 0), (2.0, 1)])
def test_places_in_a_single_number_have_no_rows(value: float, count: int) -> None:
    assert _of_onnx("NonZero", np.array(value, np.float32), DType.INT64, ()).shape == (0, count)


def _of_onnx(
    kind: str, x: np.ndarray, dtype: DType, values: tuple[tuple[str, object], ...]
) -> np.ndarray:
    b = builder()
    source = b.input("x", DType.of(x), x.shape)
    made = Tensor("y", dtype, x.shape, None)
    b.op_many("CUSTOM", [source], [made], OnnxAttrs(values, 20), custom_code=f"{PREFIX}{kind}")
    (result,) = evaluate_graph(b.output(made).build(), [x])
    return result


def test_scales_of_compared_16_bits_stay_below_one() -> None:
    values = np.array([1], np.int16)
    operands = [tensor(name, values, (1.5, 0)) for name in "ab"]
    assert broken_rule(make_op("EQUAL", operands, (DType.BOOL, None))) == "input-scales"
    assert broken_rule(make_op("LESS", operands, (DType.BOOL, None))) == ""
