from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from tests.ops.one_op import assert_agrees, broken_rule, centre, make_op, stored_values, tensor

COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
NUMBERS = (DType.FLOAT32, DType.INT32, DType.INT64)


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_compare_as_the_peer_compares(kind: str, dtype: DType) -> None:
    random = np.random.default_rng(3)
    a = random.integers(-3, 4, (2, 5, 7)).astype(dtype.numpy)
    b = random.integers(-3, 4, (5, 1)).astype(dtype.numpy)
    op = make_op(kind, [tensor("a", a), tensor("b", b)], (DType.BOOL, None), version=2)
    assert_agrees(op, [a, b])


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_every_pair_of_bytes_compares_as_the_peer_compares(kind: str, dtype: DType) -> None:
    a = np.arange(256, dtype=np.uint8).view(dtype.numpy)[:, None]
    b = np.ascontiguousarray(a.T)
    for first, second in (
        ((0.02, -3), (0.05, 10)),
        ((0.01, 0), (0.01, 0)),
        ((0.3, 5), (0.0007, -9)),
    ):
        shift = centre(dtype)
        inputs = [
            tensor("a", a, (first[0], first[1] + shift)),
            tensor("b", b, (second[0], second[1] + shift)),
        ]
        op = make_op(kind, inputs, (DType.BOOL, None), version=2)
        assert_agrees(op, [a, b])


@pytest.mark.parametrize("kind", ["LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "EQUAL"])
def test_booleans_agree_with_the_peer(kind: str) -> None:
    arrays = [np.array([[True, False]]), np.array([[True], [False]])]
    arrays = arrays[: 1 if kind == "LOGICAL_NOT" else 2]
    inputs = [tensor(f"x{i}", array) for i, array in enumerate(arrays)]
    version = 3 if kind == "EQUAL" else 1
    assert_agrees(make_op(kind, inputs, (DType.BOOL, None), version=version), arrays)


def test_scales_of_one_or_more_are_refused() -> None:
    values = stored_values(DType.INT8, (3,))
    op = make_op("LESS", [tensor("a", values, (1.0, 0))] * 2, (DType.BOOL, None))
    assert broken_rule(op) == "input-scales"
