"""What engines computed is compared."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.comparison.outputs import difference


def test_integers_differ_by_steps() -> None:
    found = difference({"y": np.array([1, -5], np.int8)}, {"y": np.array([1, -2], np.int8)})
    assert found.steps == 3 and found.part == pytest.approx(3 / 127)


def test_steps_do_not_wrap_around() -> None:
    found = difference({"y": np.array([0], np.uint8)}, {"y": np.array([255], np.uint8)})
    assert found.steps == 255


def test_floats_differ_in_parts_of_their_range() -> None:
    found = difference({"y": np.array([100.0, 0.0])}, {"y": np.array([100.0, 1.0])})
    assert found.part == pytest.approx(0.01) and found.steps is None


def test_outputs_are_matched_by_name_then_by_position() -> None:
    a, b = np.array([1.0]), np.array([2.0])
    assert difference({"a": a, "b": b}, {"b": b, "a": a}).part == 0
    assert difference({"a": a, "b": b}, {"x": a, "y": b}).part == 0


def test_what_cannot_be_compared_is_said() -> None:
    a = np.zeros(3)
    assert "2 outputs instead of 1" in difference({"a": a}, {"a": a, "b": a}).note
    assert "shape" in difference({"a": a}, {"a": np.zeros(4)}).note


def test_a_nan_is_a_difference_unless_both_have_it() -> None:
    nan, one = np.array([np.nan]), np.array([1.0])
    assert difference({"y": nan}, {"y": nan}).part == 0
    found = difference({"y": nan}, {"y": one})
    assert found.part == np.inf and found.note
