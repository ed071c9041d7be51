from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType
from circlet.ops import find
from circlet.ops.softmax import SoftmaxAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    centre,
    every_value,
    make_op,
    stored_values,
    tensor,
)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scale", [0.0008, 0.0625, 0.17, 1.3])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("shape", [(40, 2), (3, 7, 10), (2, 300), (5, 1)])
def test_softmax_of_bytes_agrees(
    shape: tuple[int, ...], beta: float, scale: float, dtype: DType
) -> None:
    x = stored_values(dtype, shape)
    op = make_op(
        "SOFTMAX",
        [tensor("x", x, (scale, 3))],
        (dtype, (1 / 256, -128 + centre(dtype))),
        SoftmaxAttrs(beta),
        version=2,
    )
    assert_agrees(op, [x])


@pytest.mark.parametrize("scale", [10 / 65535, 0.0003, 0.002, 0.05])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("shape", [(400, 2), (3, 7, 10), (60, 3000), (5, 1)])
def test_softmax_of_int16_agrees(shape: tuple[int, ...], beta: float, scale: float) -> None:
    x = stored_values(DType.INT16, shape) // 6
    result = DType.INT16, (1 / 32768, 0)
    op = make_op("SOFTMAX", [tensor("x", x, (scale, 0))], result, SoftmaxAttrs(beta), version=3)
    assert_agrees(op, [x])


def test_softmax_of_every_int16_difference_agrees() -> None:
    x = np.arange(-32768, 32768).astype(np.int16)[:, None]
    x = np.concatenate([x, np.full_like(x, 32767)], axis=1)
    result = DType.INT16, (1 / 32768, 0)
    op = make_op("SOFTMAX", [tensor("x", x, (2e-4, 0))], result, SoftmaxAttrs(1.0), version=3)
    assert_agrees(op, [x])


def test_softmax_of_every_difference_agrees() -> None:
    x = every_value(DType.UINT8).reshape(128, 2)
    x = np.concatenate([x, 255 - x], axis=1)
    op = make_op(
        "SOFTMAX", [tensor("x", x, (0.02, 0))], (DType.UINT8, (1 / 256, 0)), SoftmaxAttrs(1.0)
    )
    assert_agrees(op, [x])


@pytest.mark.parametrize(("kind", "attrs"), [("SOFTMAX", SoftmaxAttrs(0.7)), ("LOG_SOFTMAX", None)])
def test_float_rows_agree(kind: str, attrs: object) -> None:
    x = np.random.default_rng(0).normal(0, 30, (6, 5, 33)).astype(np.float32)
    assert_agrees(make_op(kind, [tensor("x", x)], (DType.FLOAT32, None), attrs), [x])


@pytest.mark.parametrize(("dtype", "zero"), [(DType.INT8, 127), (DType.UINT8, 255)])
def test_log_softmax_of_bytes_agrees(dtype: DType, zero: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (200, 12), np.uint8).view(dtype.numpy)
    for scale in (0.02, 0.3):
        assert_agrees(
            make_op("LOG_SOFTMAX", [tensor("x", x, (scale, 5))], (dtype, (1 / 16, zero))), [x]
        )


def test_rules_refuse_what_the_kernel_cannot_compute() -> None:
    x, good = np.zeros((2, 3), np.int8), (DType.INT8, (1 / 256, -128))
    one = SoftmaxAttrs(1.0)
    tiny = make_op("SOFTMAX", [tensor("x", x, (1e-9, 0))], good, one)
    assert broken_rule(tiny) == "input-scale"
    wrong = make_op("SOFTMAX", [tensor("x", x, (0.1, 0))], (DType.INT8, (0.5, 0)), one)
    assert broken_rule(wrong) == "output-scale"
    flat = make_op("SOFTMAX", [tensor("x", x, (0.1, 0))], good, SoftmaxAttrs(0.0))
    assert broken_rule(flat) == "beta"
    scalar = make_op("SOFTMAX", [tensor("x", np.zeros((), np.float32))], (DType.FLOAT32, None))
    assert broken_rule(scalar) == "last-axis"


def test_run_without_a_last_axis_is_a_coded_error() -> None:
    record = find("SOFTMAX")
    assert record is not None
    x = tensor("x", np.zeros((), np.float32))
    op = make_op("SOFTMAX", [x], (DType.FLOAT32, None), SoftmaxAttrs(1.0))
    with pytest.raises(GraphError):
        record.evaluate(op, [np.zeros((2, 0), np.float32)])
