"""Strategies: each finds its way in a small space, again and again the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import InputError
from circlet.placement.search import strategies as table
from circlet.placement.search.correction import Correction
from circlet.placement.search.drive import Evaluated, search
from circlet.placement.search.front import Point, as_array, hypervolume, reference_point
from circlet.placement.search.simple import brute_force
from circlet.placement.search.space import Genome, Space, model_front
from circlet.placement.search.strategies import STRATEGIES, strategy
from tests.placement.search.problems import random_problem

QUICK = [name for name in STRATEGIES if name != "tpe"]


def space_of(groups: int = 5, by: str = "operator") -> Space:
    first = random_problem(1, groups, 3, "residual")
    faster = replace(first, time_ns=0.6 * first.time_ns, held_bytes=1.5 * first.held_bytes)
    return Space.of([first, faster], by)


def truth(space: Space, seed: int = 0) -> Space:
    """The space with costs that the model does not know."""
    rng = np.random.default_rng(seed)
    return replace(
        space,
        problems=tuple(
            replace(
                problem,
                time_ns=problem.time_ns * rng.uniform(0.7, 1.4, problem.time_ns.shape),
                held_bytes=problem.held_bytes * rng.uniform(0.7, 1.4, problem.time_ns.shape),
                transfer_ns=1.5 * problem.transfer_ns,
            )
            for problem in space.problems
        ),
    )


class Bench:
    """Measures genomes by a space that strategies do not see."""

    def __init__(self, space: Space) -> None:
        self.space, self.asked = space, list[Genome]()

    def __call__(self, genomes: Sequence[Genome]) -> list[Point]:
        self.asked += genomes
        return [(float(time), float(memory)) for time, memory in self.space.predicted(genomes)]


def volume(found: Evaluated, corner: Point) -> float:
    return hypervolume(as_array(list(found.points.values())), corner)


@pytest.mark.smoke
def test_brute_force_measures_every_genome_once() -> None:
    space = space_of(4)
    bench = Bench(space)
    found = search(space, brute_force(space), bench, 10**9)
    assert len(bench.asked) == len(set(bench.asked)) == space.size == len(found.points)
    assert set(bench.asked) == set(space.genomes())


@pytest.mark.parametrize("name", QUICK)
def test_a_strategy_keeps_to_its_budget_and_repeats_itself(name: str) -> None:
    space = space_of()
    first, again = Bench(truth(space)), Bench(truth(space))
    for bench in (first, again):
        found = search(space, strategy(name, space, 3), bench, 40)
        assert len(found.points) == len(bench.asked) == len(set(bench.asked)) <= 40
    assert first.asked == again.asked
    assert all(space.mended(genome) == genome for genome in first.asked)


@pytest.mark.slow
def test_tpe_keeps_to_its_budget() -> None:
    space = space_of()
    found = search(space, strategy("tpe", space, 3), Bench(truth(space)), 25)
    assert 10 < len(found.points) <= 25


@pytest.mark.parametrize("name", [name for name in QUICK if name not in ("random", "brute-force")])
def test_what_was_measured_before_is_not_measured_again(name: str) -> None:
    space = space_of()
    whole = Bench(truth(space))
    search(space, strategy(name, space, 5), whole, 40)
    known = dict(zip(whole.asked[:15], whole(whole.asked[:15]), strict=True))
    rest = Bench(truth(space))

    def remembered(genomes: Sequence[Genome]) -> list[Point]:
        new = [genome for genome in genomes if genome not in known]
        known.update(zip(new, rest(new), strict=True))
        return [known[genome] for genome in genomes]

    search(space, strategy(name, space, 5), remembered, 40)
    assert rest.asked == whole.asked[15:40]


@pytest.mark.parametrize("seed", range(3))
def test_auto_comes_near_the_best_with_a_tenth_of_all(seed: int) -> None:
    space = space_of(5)
    real = truth(space, seed)
    everything = search(space, brute_force(space), Bench(real), 10**9)
    corner = reference_point(as_array(list(everything.points.values())))
    found = search(space, strategy("auto", space, seed), Bench(real), space.size // 10)
    assert volume(found, corner) >= 0.97 * volume(everything, corner)


def test_failures_do_not_stop_a_strategy() -> None:
    space = space_of(4)

    def failing(genomes: Sequence[Genome]) -> list[Point]:
        points = Bench(space)(genomes)
        return [(np.inf, np.inf) if g[1] == 0 else p for g, p in zip(genomes, points, strict=True)]

    for name in QUICK:
        found = search(space, strategy(name, space), failing, 30)
        assert found.front and all(genome[1] != 0 for genome in found.front)


def test_a_model_learns_from_what_it_predicted_wrongly() -> None:
    space = space_of(5)
    bench = Bench(truth(space))
    rng = np.random.default_rng(0)
    seen = list(dict.fromkeys(space.random(rng) for _ in range(60)))
    others = [g for g in (space.random(rng) for _ in range(60)) if g not in seen]
    model = Correction(space)
    before = model.predicted(others)
    model.learn(dict(zip(seen, bench(seen), strict=True)))
    real = truth(space).predicted(others)

    def miss(points: np.ndarray) -> float:
        return float(np.abs(points / real - 1).mean())

    assert miss(model.predicted(others)) < 0.4 * miss(before)


def test_coarse_genes_place_kinds() -> None:
    space = space_of(7, "kind")
    assert len(space.genes) == 3 and not space.is_fine
    genome = space.mended((1, 2, 0, 1))
    choice = space.choice(genome)
    assert all(space.problems[1].allowed[np.arange(7), choice])
    front, is_exact = model_front(space)
    best = space.predicted(list(space.genomes()))
    assert is_exact and space.predicted(front)[0, 0] == best[:, 0].min()


def test_numbers_of_genomes_are_their_places() -> None:
    space = space_of(4)
    every = list(space.genomes())
    assert len(set(every)) == len(every) == space.size
    assert every[0] == space.mended((0, 0, 0, 0, 0))
    assert [genome[0] for genome in every] == sorted(genome[0] for genome in every)


def test_a_strategy_is_named_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such strategy"):
        strategy("best", space_of(2))
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"circlet\[search\]"):
        strategy("nsga2", space_of(2))


def test_algorithms_know_no_files() -> None:
    folder = Path(table.__file__).parent
    words = ("open(", "import time", "Session", "pathlib")
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not any(word in text.replace("reopen(", "") for word in words), path.name
