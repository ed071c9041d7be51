"""The measures of comparisons, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from circlet.artifact.values import Value
from circlet.commands.alignment import aligned, input_for, real
from circlet.commands.measures import mean_of, measures, top_matches
from circlet.errors import InputError


def test_measures_are_those_of_their_definitions() -> None:
    found = measures(np.array([1.0, 2.0, 0.0, -4.0]), np.array([1.0, 1.0, 1.0, -2.0]))
    assert (found.different, found.largest, found.mae, found.mse) == (0.75, 2.0, 1.0, 1.5)
    assert found.mape == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)  # the zero does not count
    assert found.peir == pytest.approx(2 / 6)
    assert found.snr == pytest.approx(10 * math.log10(21 / 6))


def test_equal_arrays_differ_in_nothing() -> None:
    array = np.array([np.nan, np.inf, 1.0, 0.0], np.float32)
    found = measures(array, array.copy())
    assert (found.different, found.largest, found.mae, found.mape, found.peir) == (0, 0, 0, 0, 0)
    assert found.snr == math.inf


def test_a_lost_number_is_an_infinite_error() -> None:
    assert measures(np.array([1.0, 2.0]), np.array([1.0, np.nan])).largest == math.inf


def test_an_error_without_an_interval_is_infinite() -> None:
    assert measures(np.zeros(3), np.ones(3)).peir == math.inf


def test_several_runs_have_means_and_the_largest_error() -> None:
    one, other = (measures(np.array([0.0, 4.0]), np.array([0.0, b])) for b in (3.0, 1.0))
    both = mean_of([one, other])
    assert (both.largest, both.mae, both.peir) == (3.0, 1.0, 0.5)


def test_the_best_are_counted_whatever_their_order() -> None:
    a, b = np.array([5, 4, 3, 2, 1, 0]), np.array([4, 5, 0, 3, 1, 2])
    assert top_matches(a, b, 3) == pytest.approx(2 / 3)
    assert top_matches(a, b, 6) is None


NCHW, NHWC = (1, 3, 4, 5), (1, 4, 5, 3)


@pytest.mark.parametrize(
    ("shape", "other"), [(NCHW, NHWC), (NHWC, NCHW), ((6,), (1, 6, 1)), ((2, 3), (2, 3))]
)
def test_arrays_take_another_layout(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    there = aligned(array, other)
    assert there is not None and there.shape == other
    back = aligned(there, shape)
    assert back is not None and np.array_equal(back, array)


def test_arrays_of_other_things_do_not() -> None:
    assert aligned(np.zeros((2, 3)), (3, 2)) is None


def test_stored_integers_stand_for_real_numbers() -> None:
    stored = np.array([[1, 2], [3, 4]], np.int8)
    assert real(stored, (0.5,), (1,)).tolist() == [[0, 0.5], [1, 1.5]]
    assert real(stored, (1.0, 10.0), (0, 1), 1).tolist() == [[1, 10], [3, 30]]
    assert real(stored, (), ()) is stored


def test_inputs_are_quantised_as_the_other_network_wants_them() -> None:
    given = Value("x", "float32", (2, 2))
    wanted = Value("x", "int8", (1, 2, 2, 1), (0.5,), (3,))
    array = np.array([[0.0, 1.0], [-1.0, 99.0]], np.float32)
    assert input_for(array, given, wanted).tolist() == [[[[3], [5]], [[1], [127]]]]
    assert input_for(array, given, wanted).dtype == np.int8
    scalar = Value("rate", "int64", ())
    assert input_for(np.array(5), scalar, scalar).shape == ()
    with pytest.raises(InputError, match="take other inputs"):
        input_for(array, given, Value("x", "float32", (1, 3, 3, 1)))
