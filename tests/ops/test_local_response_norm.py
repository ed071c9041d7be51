from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Op
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from tests.ops.one_op import assert_agrees, broken_rule, make_op, own_result, tensor

KIND = "LOCAL_RESPONSE_NORMALIZATION"


def norm(x: np.ndarray, *attrs: float) -> Op:
    return make_op(
        KIND,
        [tensor("x", x)],
        (DType.FLOAT32, None),
        LocalResponseNormAttrs(int(attrs[0]), *attrs[1:]),
    )


def test_neighbours_on_both_sides_count() -> None:
    x = np.array([[[[1, 2, 3, 4, 5]]]], np.float32)
    sums = np.array([1 + 4, 1 + 4 + 9, 4 + 9 + 16, 9 + 16 + 25, 16 + 25], np.float32)
    result = own_result(norm(x, 1, 3.0, 2.0, 1.0), [x])
    np.testing.assert_allclose(result, x / (3 + 2 * sums), rtol=1e-6)


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 2.5])
@pytest.mark.parametrize(("depth", "radius"), [(1, 0), (7, 2), (96, 5), (4, 9)])
def test_results_are_those_of_litert(depth: int, radius: int, beta: float) -> None:
    x = np.random.default_rng(depth).normal(size=(2, 3, 4, depth)).astype(np.float32) * 3
    assert_agrees(norm(x, radius, 1.5, 0.02, beta), [x])


@pytest.mark.parametrize(
    ("attrs", "rule"), [((-1, 1.0, 1.0, 0.5), "radius"), ((1, float("nan"), 1.0, 0.5), "finite")]
)
def test_odd_attributes_break_a_rule(attrs: tuple[float, ...], rule: str) -> None:
    x = np.ones((1, 1, 1, 4), np.float32)
    assert broken_rule(norm(x, *attrs)) == rule
