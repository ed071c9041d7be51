"""The model's front, and list schedules, beside all placements of small problems."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.placement.search.exact import QUICK_EFFORT, Effort, exact_front
from circlet.placement.search.front import hypervolume, non_dominated, reference_point
from circlet.placement.search.objective import Objective
from circlet.placement.search.schedule import list_schedule, makespan_ns, partitions_of
from circlet.placement.search.segments import segments_of
from tests.placement.search.problems import SHAPES, every_choice, random_problem


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_the_front_is_that_of_all_placements(seed: int, shape: str) -> None:
    problem = random_problem(seed, 2 + seed, 2 + seed % 2, shape)
    points = Objective(problem).points(every_choice(problem))
    found = exact_front(problem)
    assert found.is_exact
    np.testing.assert_allclose(found.points, points[non_dominated(points)])
    np.testing.assert_allclose(Objective(problem).points(found.choices), found.points)
    assert problem.allowed[np.arange(len(problem.groups)), found.choices].all()


def test_a_front_that_was_thinned_out_says_so_and_is_near() -> None:
    problem = random_problem(0, 40)
    whole, thin = exact_front(problem), exact_front(problem, Effort(labels=40))
    corner = reference_point(whole.points)
    assert whole.is_exact and not thin.is_exact
    assert hypervolume(thin.points, corner) > 0.97 * hypervolume(whole.points, corner)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "residual"])
def test_the_front_of_a_hundred_operators_is_exact(shape: str) -> None:
    found = exact_front(random_problem(5, 100, 3, shape))
    assert found.is_exact and len(found.points) > 20


def test_networks_are_cut_where_branches_meet() -> None:
    segments = segments_of(random_problem(0, 9, 3, "residual"))
    assert [segment.head for segment in segments] == [-1, 0, 3, 4, 7, 8]
    assert [segment.inner for segment in segments] == [(), (1, 2), (), (5, 6), (), ()]


@pytest.mark.parametrize("shape", SHAPES)
def test_partitions_are_counted_one_way(shape: str) -> None:
    problem = random_problem(3, 7, 3, shape)
    choices = every_choice(problem)[::17]
    counts = Objective(problem).partition_counts(choices)
    for choice, count in zip(choices, counts, strict=True):
        parts = partitions_of(problem, choice)
        assert np.bincount([b for b, _ in parts], minlength=3).tolist() == count.tolist()
        assert sorted(step for _, steps in parts for step in steps) == list(range(7))


@pytest.mark.parametrize("seed", range(4))
def test_a_list_schedule_is_no_worse_than_the_worst_backend(seed: int) -> None:
    problem = random_problem(seed, 30, 3, "residual")
    choice = list_schedule(problem)
    assert problem.allowed[np.arange(30), choice].all()
    objective = Objective(problem)
    alone = [np.where(problem.allowed[:, b], b, problem.allowed.argmax(1)) for b in range(3)]
    assert objective.point(choice)[0] < max(objective.point(single)[0] for single in alone)
    assert objective.point(choice)[0] >= exact_front(problem, QUICK_EFFORT).points[0, 0] - 1e-6


def test_backends_that_overlap_take_less_than_in_turn() -> None:
    problem = random_problem(2, 16, 2, "residual", "parallel")
    choice = list_schedule(problem)
    linear = random_problem(2, 16, 2, "residual")
    assert makespan_ns(problem, choice) <= Objective(linear).point(choice)[0]
    front = exact_front(problem)
    assert not front.is_exact
    assert front.points[0, 0] == makespan_ns(problem, front.choices[0])


def test_where_branches_are_too_wide_the_front_is_likely_and_says_so() -> None:
    problem = random_problem(1, 60, 3, "forest")
    found = exact_front(problem)
    assert not found.is_exact
    assert problem.allowed[np.arange(60), found.choices].all()
    np.testing.assert_allclose(Objective(problem).points(found.choices), found.points)


def test_work_is_bounded_and_what_is_left_out_is_said() -> None:
    problem = random_problem(4, 30, 4, "graph")
    bounded = exact_front(problem, Effort(20_000, 50_000, 1))
    assert not bounded.is_exact and len(bounded.points)
    assert np.array_equal(Objective(problem).points(bounded.choices), bounded.points)
    chain = random_problem(4, 30, 4)
    assert exact_front(chain).is_exact
    assert not exact_front(chain, Effort(20_000, 50_000, 1)).is_exact
