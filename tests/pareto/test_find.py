"""From a model to a front: the promise about single backends, journals, files."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.commands.pareto import ParetoRequest, pareto
from circlet.errors import BackendError, FileError, InputError
from circlet.options import Options
from circlet.pareto import find
from circlet.pareto.calibrate import calibrated
from circlet.pareto.find import SearchRequest, find_front
from circlet.pareto.front import as_dict, read_front, write_front
from circlet.pareto.journal import Journal
from circlet.pareto.one_files import (
    number_of,
    one_dump,
    read_one,
    symbols_of,
    vector_of,
    write_one,
)
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Measurement
from circlet.placement.search.space import Space
from tests.pareto.networks import branches
from tests.placement.search.problems import random_problem

PROBLEM = random_problem(7, 6, 3, "residual")
SETTINGS = EvaluationSettings(Options(backends=PROBLEM.backends), memory="planned")
REQUEST = SearchRequest(branches(), SETTINGS, evaluations=40)


@pytest.fixture(autouse=True)
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    found = Space.of([PROBLEM])
    monkeypatch.setattr(find, "space_of", lambda *request: found)
    monkeypatch.setattr("circlet.pareto.one_files.space_of", lambda *request: found)
    return found


class Bench:
    """What measuring says: the model's times, and half as much again for mixes."""

    def __init__(self, penalty: float = 1.5) -> None:
        self.space, self.penalty, self.calls = Space.of([PROBLEM]), penalty, 0

    def __call__(
        self, model: bytes | Path, configuration: Configuration, settings: EvaluationSettings
    ) -> Measurement:
        self.calls += 1
        genome = self.space.genome_of(0, PROBLEM.choice(configuration.placement))
        time, memory = self.space.predicted([genome])[0]
        is_mixed = genome not in self.space.single_backends()
        return Measurement(float(time) * (self.penalty if is_mixed else 1.0), float(memory))


@pytest.mark.parametrize("penalty", [0.5, 1.0, 100.0])
def test_no_front_is_slower_than_the_best_single_backend(penalty: float) -> None:
    found = find_front(REQUEST, Bench(penalty))
    assert found.best_single is not None and found.best_single.single
    assert found.points[0].point[0] <= found.best_single.point[0]
    if penalty == 100.0:
        assert found.points[0] == found.best_single


def test_a_network_that_no_backend_runs_is_an_error_with_the_reasons() -> None:
    def failing(*request: object) -> Measurement:
        return Measurement(math.inf, math.inf, error="the device is gone", code="E-BACKEND")

    with pytest.raises(BackendError, match="the device is gone"):
        find_front(REQUEST, failing)


def test_the_budget_holds_single_backends_too() -> None:
    bench = Bench()
    found = find_front(REQUEST, bench)
    assert bench.calls == found.evaluations == 40
    assert len(found.points) + len(found.others) == 40
    assert found.hypervolume > 0 and all(map(math.isfinite, found.reference))


def test_offline_measures_the_models_front_only() -> None:
    bench = Bench(1.0)
    found = find_front(replace(REQUEST, mode="offline"), bench)
    assert found.model_front_is_exact and bench.calls < 30
    everything = find_front(replace(REQUEST, search="brute-force", evaluations=10**6), Bench(1.0))
    points = {point.point for point in everything.points}
    assert points == {point.point for point in found.points}
    assert found.predicted_hypervolume == pytest.approx(found.hypervolume)


def test_a_search_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = find_front(replace(REQUEST, journal=tmp_path / "whole"), Bench())

    class Ending(Bench):
        def __call__(self, *given: object) -> Measurement:
            if self.calls == 17:
                raise KeyboardInterrupt
            return super().__call__(*given)  # type: ignore[arg-type]

    request = replace(REQUEST, journal=path)
    with pytest.raises(KeyboardInterrupt):
        find_front(request, Ending())
    path.write_bytes(path.read_bytes() + b'{"placement": {"half a li')
    rest = Bench()
    found = find_front(request, rest)
    assert rest.calls == 40 - 17
    assert replace(found, seconds=0.0) == replace(whole, seconds=0.0)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


KILLED = """
import sys, time
from pathlib import Path
from circlet.pareto.journal import Journal
from circlet.placement.problem import Configuration, Measurement
journal = Journal(Path(sys.argv[1]), {"of": "test"})
for number in range(10**6):
    journal.add(Configuration({"a": str(number)}), Measurement(float(number), 1.0))
    if number == 20:
        print("ready", flush=True)
"""


def test_a_journal_of_a_killed_process_holds_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGKILL)
    known = Journal(path, {"of": "test"}).known
    assert len(known) > 20
    numbers = [int(configuration.placement["a"]) for configuration in known]
    assert numbers == list(range(len(known)))
    assert [m.time_ns for m in known.values()] == list(map(float, numbers))


def test_a_journal_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path, {"model": "one"})
    with pytest.raises(InputError, match="something else") as caught:
        Journal(path, {"model": "two"})
    assert "model" in caught.value.why
    for data in (b"[1, 2]\n", b"[1, 2]\nrest", b"\x1c\0\0\0TFL3\n\0no journal", b"no line"):
        path.write_bytes(data)
        with pytest.raises(InputError):
            Journal(path, {"model": "one"})
        assert path.read_bytes() == data


def test_a_journal_whose_first_line_was_not_written_to_its_end_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path, {"model": "one"})
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert Journal(path, {"model": "one"}).known == {}
    assert path.read_bytes() == whole


def test_a_front_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    found = find_front(REQUEST, Bench())
    write_front(path, found)
    assert as_dict(read_front(path)) == as_dict(found)
    path.write_text('{"format": "circlet-front", "version": 1, "points": 3}')
    with pytest.raises(InputError, match="does not hold a front"):
        read_front(path)


def test_the_best_point_is_by_time_by_memory_or_between() -> None:
    found = find_front(REQUEST, Bench(1.0))
    assert found.best("time") == found.points[0] == found.best("0")
    assert found.best("memory") == found.points[-1] == found.best("1")
    between = found.best("0.5")
    assert between in found.points
    product = [point.point[0] * point.point[1] for point in found.points]
    assert between.point[0] * between.point[1] == min(product)
    with pytest.raises(InputError, match="no such best point"):
        found.best("cheap")


@pytest.mark.parametrize(("name", "value"), [("mode", "both"), ("by", "layer"), ("search", "x")])
def test_choices_are_checked(name: str, value: str) -> None:
    with pytest.raises(InputError):
        find_front(replace(REQUEST, **{name: value}), Bench())  # type: ignore[arg-type]


def test_python_calls_the_package() -> None:
    with pytest.raises(InputError, match="no such strategy"):
        circlet.pareto(branches(), search="x")


def test_ids_are_numbers_whose_lowest_digit_is_the_first_symbol() -> None:
    assert number_of([1, 0, 2], 3) == 1 + 0 * 3 + 2 * 9 == 19
    assert vector_of(19, 3, 3) == [1, 0, 2]
    assert vector_of(7, 2, 3) == [1, 1, 1]
    with pytest.raises(InputError, match="too large"):
        vector_of(8, 2, 3)


def test_symbols_are_kinds_or_pairs_of_kind_and_size() -> None:
    kinds, names = symbols_of(PROBLEM, "name")
    assert kinds == [0, 1, 2, 0, 1, 2] and names == ["KIND_0", "KIND_1", "KIND_2"]
    pairs, _ = symbols_of(PROBLEM)
    assert pairs == [0, 1, 2, 3, 4, 5]  # the sizes of groups alternate, so no pair comes twice


@pytest.mark.parametrize("sampled", [False, True])
def test_ones_files_go_out_and_come_back(tmp_path: Path, sampled: bool) -> None:
    path = tmp_path / "solutions.json"
    found = find_front(REQUEST, Bench())
    write_one(path, one_dump(found, sampled=sampled))
    again = read_one(path, REQUEST)
    assert [p.configuration.placement for p in again.points] == [
        p.configuration.placement for p in found.points
    ]
    np.testing.assert_allclose(
        [p.point for p in again.points], [p.point for p in found.points], rtol=1e-12
    )
    dump = json.loads(path.read_text())
    keys = {"exec_time", "max_rss", "id"} if sampled else {"time", "memory", "id"}
    assert set(dump["solutions"][0]) == keys
    if sampled:
        environment = dump["configs"][str(dump["solutions"][0]["id"])]
        assert environment.startswith('BACKENDS="first;second;third" OP_BACKEND_MAP="0=')


def test_ones_solutions_by_kind_place_all_operators_of_it(tmp_path: Path) -> None:
    path = tmp_path / "solutions.json"
    rows = [{"time": 2.0, "memory": 100, "id": 1}, {"time": 1.0, "memory": 400, "id": 9 + 2}]
    path.write_text(json.dumps({"oplist": ["A", "B", "C"], "solutions": rows}))
    found = read_one(path, REQUEST)
    fast = found.points[0].configuration.placement
    assert [fast[f"op {n}"] for n in range(6)] == ["third", "first", "second"] * 2
    assert found.points[0].point == pytest.approx((1e6, 400 * 1024))
    path.write_text(json.dumps({"opmap": [0, 1], "solutions": rows}))
    with pytest.raises(InputError, match="another network"):
        read_one(path, REQUEST)


def test_what_backends_hold_is_learnt_from_each_by_itself() -> None:
    fixed = np.array([0.0, 5e7, 2e7])
    problem = replace(PROBLEM, time_ns=np.nan_to_num(PROBLEM.time_ns, posinf=500.0))
    real = Space.of([replace(problem, fixed_bytes=fixed, base_bytes=3e6)])
    model = Space.of([replace(problem, fixed_bytes=np.zeros(3))])
    alone = [(0, *[backend] * 6) for backend in range(3)]
    points = [(float(t), float(m)) for t, m in real.predicted(alone)]
    learnt = calibrated(model, dict(zip(alone, points, strict=True)))
    others = [*alone, (0, 0, 1, 0, 1, 1, 0), (0, 0, 1, 2, 0, 1, 2)]
    np.testing.assert_allclose(learnt.predicted(others)[:, 1], real.predicted(others)[:, 1])
    failed = dict.fromkeys(alone, (math.inf, math.inf))
    assert calibrated(model, failed) is model


def test_each_setting_is_set_right_by_the_backends_that_were_measured_at_it() -> None:
    usual, small = random_problem(7, 6, 3, "residual"), random_problem(7, 6, 3, "residual")
    small = replace(small, setting=usual.setting._replace(level="Os"))
    slow = np.array([2.0, 1.0, 1.5])
    real = Space.of(
        [
            replace(usual, time_ns=usual.time_ns * slow),
            replace(small, time_ns=small.time_ns * slow, base_bytes=small.base_bytes + 5000.0),
        ]
    )
    alone = [(setting, *[backend] * 6) for setting in range(2) for backend in range(3)]
    points = [(float(t), float(m)) for t, m in real.predicted(alone)]
    measured = dict(zip(alone, points, strict=True))
    measured.pop((1, 2, 2, 2, 2, 2, 2))  # its time is told by the other setting
    learnt = calibrated(Space.of([usual, small]), measured)
    others = [*alone, (0, 0, 1, 0, 1, 1, 0), (1, 0, 1, 2, 0, 1, 2)]
    np.testing.assert_allclose(learnt.predicted(others)[:, 0], real.predicted(others)[:, 0])
    small_ones = [genome for genome in others if genome[0] == 1 and 2 not in genome[1:]]
    np.testing.assert_allclose(learnt.predicted(small_ones)[:, 1], real.predicted(small_ones)[:, 1])


def test_an_executor_that_is_none_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    request = SearchRequest(tmp_path / "none.tflite", executors=("fast",))
    with pytest.raises(InputError, match="no such executor"):
        find_front(request)


def test_a_folder_that_is_missing_is_noticed_before_the_search(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "front.json"
    with pytest.raises(FileError, match="No such file"):
        pareto(ParetoRequest(SearchRequest(tmp_path / "none.tflite"), output=path))
