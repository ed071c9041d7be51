from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops import find
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs, resolved_reshape
from tests.ops.one_op import assert_agrees, broken_rule, make_op, tensor

ANY_TYPE = [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.BOOL]


def values(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, shape).astype(dtype.numpy)


def ints(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.int32)


def infer(op: Op) -> Shape:
    record = find(op.kind)
    assert record is not None
    return record.infer(op)[0].shape


@pytest.mark.parametrize("dtype", ANY_TYPE)
def test_reshape_agrees(dtype: DType) -> None:
    x = values(dtype, (2, 3, 4))
    inputs = [tensor("x", x), tensor("shape", ints([4, -1]), constant=True)]
    assert_agrees(make_op("RESHAPE", inputs, (dtype, None)), [x])


def test_reshape_reads_its_options_without_a_second_operand() -> None:
    x = values(DType.FLOAT32, (2, 3, 4))
    assert_agrees(
        make_op("RESHAPE", [tensor("x", x)], (DType.FLOAT32, None), ReshapeAttrs((8, 3))), [x]
    )


@pytest.mark.parametrize(
    ("source", "target", "result"),
    [
        ((2, 6), (3, -1), (3, 4)),
        ((2, 6), (-1,), (12,)),
        ((None, 6), (-1, 3), (None, 3)),
        ((None, 6), (4, 3), (4, 3)),
        ((1,), (), ()),
        ((2, 6), (5, -1), None),
        ((2, 6), (-1, -1), None),
        ((2, 6), (-2, 6), None),
        ((0, 6), (0, -1), None),
        ((2, 6), (2, 5), None),
    ],
)
def test_reshape_resolves_its_target(
    source: Shape, target: tuple[int, ...], result: Shape | None
) -> None:
    assert resolved_reshape(source, target) == result


def test_reshape_to_a_size_computed_at_run_time() -> None:
    x, shape = values(DType.FLOAT32, (2, 6)), ints([3, -1])
    op = make_op("RESHAPE", [tensor("x", x), tensor("shape", shape)], (DType.FLOAT32, None))
    record = find("RESHAPE")
    assert record is not None
    assert infer(op) == (None, None)
    assert record.evaluate(op, [x, shape])[0].shape == (3, 4)
    with pytest.raises(GraphError):
        record.evaluate(op, [x, ints([5, -1])])


@pytest.mark.parametrize("dims", [(), (1,), (-1,), (1, 3)])
def test_squeeze_agrees(dims: tuple[int, ...]) -> None:
    x = values(DType.FLOAT32, (2, 1, 3, 1))
    assert_agrees(
        make_op("SQUEEZE", [tensor("x", x)], (DType.FLOAT32, None), SqueezeAttrs(dims)), [x]
    )


@pytest.mark.parametrize("axis", [0, 2, 3, -1, -4])
def test_expand_dims_agrees(axis: int) -> None:
    x = values(DType.FLOAT32, (2, 3, 4))
    inputs = [tensor("x", x), tensor("axis", ints([axis]), constant=True)]
    assert_agrees(make_op("EXPAND_DIMS", inputs, (DType.FLOAT32, None)), [x])


@pytest.mark.parametrize(
    ("kind", "second", "attrs", "rule"),
    [
        ("SQUEEZE", None, SqueezeAttrs((0,)), "axes"),
        ("SQUEEZE", None, SqueezeAttrs((9,)), "axes"),
        ("EXPAND_DIMS", [5], None, "axis"),
        ("EXPAND_DIMS", [-6], None, "axis"),
        ("EXPAND_DIMS", [0, 1], None, "axis-input"),
    ],
)
def test_rules_refuse_axes_out_of_reach(
    kind: str, second: list[int] | None, attrs: object, rule: str
) -> None:
    inputs = [tensor("x", values(DType.FLOAT32, (2, 1, 3, 1)))]
    if second is not None:
        inputs.append(tensor("axis", ints(second), constant=True))
    assert broken_rule(make_op(kind, inputs, (DType.FLOAT32, None), attrs)) == rule


def test_reshape_to_another_element_count_is_refused() -> None:
    x = tensor("x", values(DType.FLOAT32, (2, 6)))
    op = make_op("RESHAPE", [x], (DType.FLOAT32, None), ReshapeAttrs((12,)))
    op.inputs[0] = tensor("x", values(DType.FLOAT32, (2, 5)))
    assert broken_rule(op) == "elements"
    with pytest.raises(GraphError):
        infer(op)
