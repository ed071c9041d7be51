"""Branches that the sizes of a run do not fit: an error only where they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CircletError, GraphError
from circlet.formats import dumps
from tests.branches import choice


def _network(*sizes: int, backend: str = "cpu") -> Session:
    return Session(dumps(choice(*sizes), "tflite"), backends=(backend,))


def _given(flag: bool, size: int) -> dict[str, np.ndarray]:
    return {"flag": np.array(flag), "x": np.ones(size, np.float32)}


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("size", [3, 5])
def test_the_branch_that_fits_runs(size: int, backend: str) -> None:
    (got,) = _network(3, 5, backend=backend).run(_given(size == 3, size)).values()
    np.testing.assert_array_equal(got, np.arange(size) + 1.0)


def test_taking_the_other_is_an_error_and_other_sizes_go_on() -> None:
    session = _network(3, 5)
    with pytest.raises(CircletError) as caught:
        session.run(_given(False, 3))
    assert "add 5" in str(caught.value)
    (got,) = session.run(_given(False, 5)).values()
    np.testing.assert_array_equal(got, np.arange(5) + 1.0)


def test_reference_says_what_does_not_fit() -> None:
    with pytest.raises(GraphError, match="branch was taken") as caught:
        _network(3, 5, backend="reference").run(_given(True, 5))
    assert "broadcast" in str(caught.value.why)


def test_sizes_that_no_branch_fits_are_refused_ahead() -> None:
    with pytest.raises(GraphError, match="add"):
        _network(3, 5).run(_given(True, 4))
