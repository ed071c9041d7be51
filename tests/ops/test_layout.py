from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType
from circlet.ops import find
from circlet.ops.layout import ConcatenationAttrs
from tests.ops.one_op import assert_agrees, broken_rule, centre, make_op, stored_values, tensor

QUANTISED = [DType.INT8, DType.UINT8, DType.INT16]
F32 = DType.FLOAT32


def floats(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 2, shape).astype(np.float32)


def ints(numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_pad_of_floats_agrees(index: type) -> None:
    x = floats((2, 3, 4))
    amounts: np.ndarray = np.array([[0, 0], [1, 2], [3, 0]], index)
    inputs = [tensor("x", x), tensor("paddings", amounts, constant=True)]
    assert_agrees(make_op("PAD", inputs, (F32, None)), [x])


@pytest.mark.parametrize("dtype", QUANTISED)
def test_pad_fills_with_the_zero_point(dtype: DType) -> None:
    quant = (0.1, 0 if dtype is DType.INT16 else 5 + centre(dtype))
    x = stored_values(dtype, (1, 3, 4, 2))
    amounts = tensor("paddings", ints([[0, 0], [1, 2], [3, 0], [0, 1]]), constant=True)
    assert_agrees(make_op("PAD", [tensor("x", x, quant), amounts], (dtype, quant), version=2), [x])


def test_padv2_fills_with_its_value() -> None:
    x, fill = floats((2, 3)), np.array([-7.5], np.float32)
    inputs = [
        tensor("x", x),
        tensor("paddings", ints([[1, 0], [0, 2]]), constant=True),
        tensor("fill", fill, constant=True),
    ]
    assert_agrees(make_op("PADV2", inputs, (F32, None)), [x])


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [3, 2, 1, 0], [0, 1, 2, 3], [2, 0, 3, 1]])
@pytest.mark.parametrize("dtype", [F32, DType.INT8])
def test_transpose_agrees(order: list[int], dtype: DType) -> None:
    x = floats((2, 3, 4, 5)) if dtype is F32 else stored_values(dtype, (2, 3, 4, 5))
    quant = None if dtype is F32 else (0.1, 0)
    inputs = [tensor("x", x, quant), tensor("perm", ints(order), constant=True)]
    assert_agrees(make_op("TRANSPOSE", inputs, (dtype, quant), version=2), [x])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation_agrees(axis: int) -> None:
    a, b = floats((2, 3, 4)), floats((2, 3, 4))
    inputs = [tensor("a", a), tensor("b", b)]
    assert_agrees(make_op("CONCATENATION", inputs, (F32, None), ConcatenationAttrs(axis)), [a, b])


def test_concatenation_of_uint8_moves_parts_to_the_output_scale() -> None:
    row = np.arange(256, dtype=np.uint8)[None]
    inputs = [
        tensor("a", row, (0.031, 7)),
        tensor("b", row, (0.5, 130)),
        tensor("c", row, (0.2, 9)),
    ]
    op = make_op("CONCATENATION", inputs, (DType.UINT8, (0.2, 9)), ConcatenationAttrs(0))
    assert_agrees(op, [row, row, row])


def test_int8_parts_on_other_scales_are_refused() -> None:
    row = np.zeros((1, 4), np.int8)
    inputs = [tensor("a", row, (0.1, 0)), tensor("b", row, (0.2, 0))]
    assert broken_rule(make_op("CONCATENATION", inputs, (DType.INT8, (0.1, 0)))) == "scales"


@pytest.mark.parametrize(
    ("kind", "second", "rule"),
    [
        ("PAD", [[0, 0], [-1, 0]], "not-negative"),
        ("PAD", [[0, 0]], "paddings"),
        ("PAD", [0, 0, 0, 0], "paddings"),
        ("TRANSPOSE", [0, 0], "permutation"),
        ("TRANSPOSE", [0, 2], "permutation"),
        ("TRANSPOSE", [0], "permutation"),
    ],
)
def test_rules_refuse_what_does_not_fit(kind: str, second: object, rule: str) -> None:
    inputs = [tensor("x", floats((2, 3))), tensor("second", ints(second), constant=True)]
    assert broken_rule(make_op(kind, inputs, (F32, None))) == rule


@pytest.mark.parametrize(
    ("shape", "axis", "rule"), [((2, 4), 0, "sizes"), ((2, 3, 1), 1, "axis"), ((2, 3), 2, "axis")]
)
def test_parts_that_do_not_fit_are_refused(shape: tuple[int, ...], axis: int, rule: str) -> None:
    good = tensor("a", floats((2, 3)))
    op = make_op("CONCATENATION", [good, good], (F32, None))
    op.attrs = ConcatenationAttrs(axis)
    op.inputs[1] = tensor("b", floats(shape))
    assert broken_rule(op) == rule


def test_operands_of_a_run_are_checked() -> None:
    x, amounts, order = floats((2, 3)), ints([[0, 0], [-1, 0]]), ints([1, 1])
    pad = make_op("PAD", [tensor("x", x), tensor("paddings", amounts)], (F32, None))
    transpose = make_op("TRANSPOSE", [tensor("x", x), tensor("perm", order)], (F32, None))
    for op, second in ((pad, amounts), (transpose, order)):
        record = find(op.kind)
        assert record is not None
        assert record.infer(op)[0].shape == (None, None)
        with pytest.raises(GraphError):
            record.evaluate(op, [x, second])
