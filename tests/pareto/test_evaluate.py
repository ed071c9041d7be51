"""Measuring configurations: what runs is timed, and what answers wrongly is no answer."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest

from circlet.errors import InputError
from circlet.options import Options
from circlet.pareto.evaluate import evaluate, evaluate_together
from circlet.pareto.settings import EvaluationSettings, options_of
from circlet.placement.problem import Configuration, Measurement, Setting
from tests.costs.fake import Fakes, Formula, fakes_fixture
from tests.pareto.networks import branches

fakes = fakes_fixture
REFERENCE = Options(backends=("reference",), cache=False)
QUICK = EvaluationSettings(REFERENCE, rounds=2, seconds=0.001, memory="planned")
NAMES = ("stem", "left", "right", "right again", "join", "end")


def placed(backend: str, names: tuple[str, ...] = NAMES) -> Configuration:
    return Configuration(dict.fromkeys(names, backend), Setting(1, "O0"))


@pytest.mark.smoke
def test_a_configuration_is_timed_and_its_answer_compared() -> None:
    found = evaluate(branches(), placed("reference"), QUICK)
    assert found.is_valid and found.runs == 2 and found.difference == 0.0
    assert 0 < found.low_ns <= found.time_ns <= found.high_ns < 1e9
    assert found.memory_bytes >= 2 * 64 * 4 and found.partitions == 1


def test_arguments_and_answers_cross_processes() -> None:
    request = (branches(), placed("reference"), QUICK)
    found = evaluate(*pickle.loads(pickle.dumps(request)))
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_backend_that_answers_wrongly_never_wins(fakes: Fakes) -> None:
    fakes.add("wrong", Formula(call_ns=0.0))  # computes nothing, at once
    settings = QUICK._replace(options=REFERENCE._replace(backends=("reference", "wrong")))
    right, wrong = evaluate_together(
        branches(), [placed("reference"), placed("wrong", ("join", "end"))], settings
    )
    assert right.is_valid
    assert not wrong.is_valid and "outputs are wrong" in wrong.error
    assert wrong.point == (math.inf, math.inf) and wrong.difference > 1


def test_what_cannot_be_opened_is_a_failure_with_its_code() -> None:
    found = evaluate(branches(), placed("nowhere"), QUICK)
    assert (found.code, found.time_ns) == ("E-INPUT", math.inf) and "nowhere" in found.error


def test_memory_is_that_of_a_fresh_process(tmp_path: Path) -> None:
    path = tmp_path / "branches.tflite"
    path.write_bytes(branches())
    found = evaluate(path, placed("reference"), QUICK._replace(memory="process"))
    assert found.is_valid and found.rss_bytes == found.memory_bytes > 1 << 14


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="nothing can be measured so"):
        evaluate(branches(), placed("reference"), QUICK._replace(rounds=0))


def test_a_configuration_says_what_a_session_is_asked_for() -> None:
    options = options_of(Configuration({"a.b": "cpu"}, Setting(2, "Os")), REFERENCE)
    assert (options.level, options.backends) == ("Os", ("reference",))
    assert options.backend_of == ((r"a\.b", "cpu"),)


def test_measurements_that_failed_have_no_point_on_a_front() -> None:
    assert not Measurement(math.inf, math.inf, error="why").is_valid


def test_rounded_operands_may_differ_by_more() -> None:
    rounded = REFERENCE._replace(backends=("cpu",), precision="bf16")
    settings = QUICK._replace(options=rounded, reference=("reference",))
    found = evaluate(branches(), placed("cpu"), settings)
    assert found.is_valid, found.error
    assert found.difference < 0.25
