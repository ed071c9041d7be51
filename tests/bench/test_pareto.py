"""Tables of all placements: recorded once, replayed as often as wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import pareto_table
from bench.pareto import main, offline, replay
from bench.pareto_table import names_in, read, record
from circlet.options import Options
from circlet.pareto.find import SearchRequest
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Measurement
from circlet.placement.search.space import Space
from tests.placement.search.problems import random_problem

PROBLEM = random_problem(3, 5, 3, "residual")
REQUEST = SearchRequest(b"model", EvaluationSettings(Options(backends=PROBLEM.backends)))


class Bench:
    """The model's own times; counts, and ends after some."""

    def __init__(self, most: int = 10**9) -> None:
        self.calls, self.most = 0, most

    def __call__(
        self, model: bytes | Path, configuration: Configuration, settings: EvaluationSettings
    ) -> Measurement:
        if self.calls == self.most:
            raise KeyboardInterrupt
        self.calls += 1
        space = Space.of([PROBLEM])
        genome = space.genome_of(0, PROBLEM.choice(configuration.placement))
        time, memory = space.predicted([genome])[0]
        return Measurement(float(time), float(memory))


@pytest.fixture(autouse=True)
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    found = Space.of([PROBLEM])
    monkeypatch.setattr(pareto_table, "space_of", lambda *request: found)
    return found


def test_recording_goes_on_where_it_ended(tmp_path: Path, space: Space) -> None:
    with pytest.raises(KeyboardInterrupt):
        record(REQUEST, "net", tmp_path, Bench(20))
    rest = Bench()
    table = record(REQUEST, "net", tmp_path, rest)
    assert rest.calls == space.size - 20
    again = read(tmp_path, "net")
    assert again.points == table.points and len(table.points) == space.size
    assert names_in(tmp_path) == ["net"]
    np.testing.assert_array_equal(
        again.space.predicted(list(table.points)), space.predicted(list(table.points))
    )


def test_replays_measure_nothing_and_repeat_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = record(REQUEST, "net", tmp_path, Bench())
    exhaustive = replay(table, "brute-force", 1)
    assert exhaustive.shares[0] <= 1.0 and exhaustive.budget == table.space.size // 10
    first, again = replay(table, "auto", 2), replay(table, "auto", 2)
    assert first == again
    assert min(first.shares) == 1.0  # the model is right here, so its front is the front
    failing = replace(table, points=dict.fromkeys(table.points, (1.0, 1.0)))
    assert replay(failing, "random", 1).needed == (1,)
    capsys.readouterr()
    main(["replay", "--folder", str(tmp_path), "--search", "auto", "--seeds", "1"])
    assert "100.00 %" in capsys.readouterr().out


def test_the_front_of_a_model_that_is_right_but_for_a_backend_is_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = record(REQUEST, "net", tmp_path, Bench())
    right = offline(table)
    assert (right.share, right.predicted, right.uncorrected) == pytest.approx((1.0, 1.0, 1.0))
    wrong = replace(PROBLEM, time_ns=PROBLEM.time_ns * np.array([0.5, 0.6, 0.4]))
    found = offline(replace(table, space=Space.of([wrong])))
    assert (found.share, found.predicted) == pytest.approx((1.0, 1.0))
    assert found.uncorrected > 1.05 and found.measured < found.size
    main(["offline", "--folder", str(tmp_path)])
    assert "100.00 % of the best" in capsys.readouterr().out
