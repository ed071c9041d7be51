"""Random numbers of ONNX have the distribution, the type and the sizes that their nodes state."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.formats.microsoft import Array, Case, model

pytest.importorskip("onnx", reason="the package onnx is not installed")

_SHAPE = (40, 50)
_LIKE = np.zeros(_SHAPE, np.float32)


def drawn(case: Case) -> tuple[Array, Array]:
    """What two runs of one session give."""
    session = circlet.Session(model([case]), backends=["reference"], cache=False)
    first, second = (next(iter(session.run(case.feeds()).values())) for _ in range(2))
    assert first.dtype == second.dtype == np.float32 and first.shape == second.shape == _SHAPE
    return first, second


def of(kind: str, **attributes: object) -> Case:
    given = [_LIKE] if kind.endswith("Like") else []
    sizes = {} if given else {"shape": _SHAPE}
    return Case(kind, given, {**attributes, **sizes}, domain="", result=1)


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomNormalLike"])
def test_normal_numbers_have_mean_and_deviation(kind: str) -> None:
    first, second = drawn(of(kind, mean=3.0, scale=0.5, seed=7.0))
    assert abs(first.mean() - 3) < 0.1 and abs(first.std() - 0.5) < 0.1
    assert (first != second).mean() > 0.9


@pytest.mark.parametrize("kind", ["RandomUniform", "RandomUniformLike"])
def test_uniform_numbers_lie_within_their_limits(kind: str) -> None:
    first, second = drawn(of(kind, low=-2.0, high=1.0))
    assert -2 <= first.min() < -1.8 and 0.8 < first.max() < 1
    assert (first != second).mean() > 0.9


def test_numbers_start_anew_from_a_seed() -> None:
    case = of("RandomNormalLike", seed=5.0)
    np.testing.assert_array_equal(drawn(case)[0], drawn(case)[0])
