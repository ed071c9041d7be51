"""Dominance and hypervolume, beside their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlet.placement.search.front import (
    hypervolume,
    improvement,
    non_dominated,
    reference_point,
)

GRID = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


def beaten_cells(points: np.ndarray, corner: int) -> int:
    """The unit squares between points on a grid and a corner."""
    x, y = np.meshgrid(np.arange(corner), np.arange(corner), indexing="ij")
    covered = np.zeros((corner, corner), bool)
    for point in points:
        covered |= (x >= point[0]) & (y >= point[1])
    return int(covered.sum())


@pytest.mark.smoke
def test_hypervolume_is_the_area_that_is_beaten() -> None:
    points = np.array([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0], [3.0, 3.0]])
    assert hypervolume(points, (5.0, 5.0)) == 4 + 3 * 2 + 1  # by columns: 1, 2..4 less 4, row 1
    assert hypervolume(points, (1.0, 1.0)) == 0.0
    assert hypervolume(np.empty((0, 2)), (5.0, 5.0)) == 0.0


@given(GRID)
def test_hypervolume_counts_squares(points: list[tuple[int, int]]) -> None:
    array = np.array(points, float)
    assert hypervolume(array, (10.0, 10.0)) == beaten_cells(array, 10)


@given(GRID)
def test_nothing_on_the_front_is_beaten_and_all_else_is(points: list[tuple[int, int]]) -> None:
    array = np.array(points, float)
    front = array[non_dominated(array)]
    for point in array:
        is_kept = (front == point).all(1).any()
        is_beaten = ((front <= point).all(1) & (front < point).any(1)).any()
        assert is_kept != is_beaten
    assert len({tuple(point) for point in front}) == len(front)


@given(GRID, st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_an_improvement_is_a_difference_of_hypervolumes(
    points: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    array, added, corner = np.array(points, float), np.array([new], float), (10.0, 10.0)
    expected = hypervolume(np.vstack([array, added]), corner) - hypervolume(array, corner)
    assert improvement(array, added, corner)[0] == pytest.approx(expected)


def test_points_that_failed_count_nowhere() -> None:
    points = np.array([[np.inf, np.inf], [2.0, 3.0], [np.nan, 1.0]])
    assert non_dominated(points).tolist() == [1]
    assert reference_point(points) == (2.0 + 0.2, 3.0 + 0.3)
