"""What a run takes as inputs: the same of ONNX Runtime and of Circlet's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="networks are made with the package onnx")

from tests.frontends import onnx_models as models
from tests.frontends.onnx_models import ROWS, Y


def test_inputs_may_be_lists_values_and_views(ort: Any, scaled: Any) -> None:
    forms = [ROWS.tolist(), ort.OrtValue.ortvalue_from_numpy(ROWS), np.asfortranarray(ROWS)]
    for form in [*forms, ROWS[::-1][::-1]]:
        np.testing.assert_array_equal(scaled.run(["y"], {"x": form})[0], Y)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_scalar_may_be_an_array_of_one_element(ort: Any, shape: tuple[int, ...]) -> None:
    session = ort.InferenceSession(models.with_a_scalar())
    feed = {"x": np.array([1, 2], np.float32), "s": np.full(shape, 3, np.float32)}
    np.testing.assert_array_equal(session.run(None, feed)[0].reshape(-1), [3, 6])
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0].reshape(-1), [3, 6])


def test_a_constant_that_is_an_input_may_be_given_anew(scaled: Any) -> None:
    feed = {"x": ROWS, "factor": np.array([1, 10], np.float32)}
    np.testing.assert_array_equal(scaled.run(["y"], feed)[0], ROWS * feed["factor"])
    np.testing.assert_array_equal(scaled.run(["y"], {"x": ROWS})[0], Y)


@pytest.mark.parametrize("feed", [[ROWS], (ROWS,), ROWS])
def test_inputs_without_names_are_refused(scaled: Any, feed: Any) -> None:
    with pytest.raises(AttributeError, match="object has no attribute 'keys'"):
        scaled.run(None, feed)
