"""Sessions for other input sizes than the file's."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError, InputError
from circlet.runtime.build import compile_model
from circlet.runtime.opening import OpenOptions
from tests.runtime import networks


def test_a_resized_session_computes_what_the_first_does_for_each_part() -> None:
    first = Session(networks.convolutions(8, 4, 2))
    second = first.resized({"x": (3, 8, 8, 4)})
    images = np.random.default_rng(2).normal(0, 1, (3, 8, 8, 4)).astype(np.float32)
    (whole,) = second.run([images]).values()
    parts = [next(iter(first.run([image[None]]).values())) for image in images]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_inputs_that_are_not_named_keep_their_sizes() -> None:
    session = Session(networks.sum_and_difference())
    with pytest.raises(GraphError):
        session.resized({"left": (2, 4)})
    assert session.resized({"left": (1, 3)}).outputs[0].shape == (2, 3)


@pytest.mark.parametrize(("name", "shape"), [("nobody", (2, 3)), ("left", (6,)), ("left", (-1, 3))])
def test_sizes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        Session(networks.sum_and_difference(), shapes={name: shape})


def test_an_artifact_is_not_resized() -> None:
    artifact = compile_model(networks.relu(), OpenOptions())
    with pytest.raises(InputError, match="fixed sizes"):
        Session(artifact, shapes={"x": (7,)})
