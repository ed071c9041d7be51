"""Backends that end their process, or hang, while placements are searched: nothing else is lost."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest

from circlet.apart import Apart
from circlet.costs.study import Effort
from circlet.costs.timing import Meter
from circlet.options import Options
from circlet.pareto.apart import Measuring
from circlet.pareto.find import SearchRequest, find_front
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Setting
from tests.cli.call import as_json
from tests.crashing import NAME, install
from tests.pareto.networks import branches

SOUND = dict.fromkeys(("stem", "left", "right", "right again", "join", "end"), "reference")
OPTIONS = Options(backends=("reference", NAME), cache=False)
SETTINGS = EvaluationSettings(OPTIONS, rounds=2, seconds=0.001, memory="planned")
EFFORT = Effort(Meter(budget_ns=1_000_000), seconds=0.01)


def placed(**changes: str) -> Configuration:
    return Configuration({**SOUND, **changes}, Setting(1, "O0"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))


@pytest.mark.parametrize("stage", [pytest.param("bind", marks=pytest.mark.slow), "run"])
def test_a_configuration_that_ends_its_process_is_a_failure_and_others_are_measured(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, aborts=stage)
    with Apart() as apart:
        before, lost, after = Measuring(apart).together(
            branches(), [placed(), placed(left=NAME), placed()], SETTINGS
        )
    assert before.is_valid and after.is_valid
    assert lost.code == "E-BACKEND" and lost.point == (math.inf, math.inf)
    assert "was ended by SIGABRT" in lost.error and NAME in lost.error


def test_a_configuration_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, hangs="load")
    with Apart() as apart:
        measuring = Measuring(apart)
        assert measuring(branches(), placed(), SETTINGS).is_valid
        lost = measuring(branches(), placed(left=NAME), SETTINGS._replace(opening_s=0.5))
        assert lost.code == "E-TIMEOUT" and "nothing was heard" in lost.error
        assert measuring(branches(), placed(), SETTINGS).is_valid


@pytest.mark.parametrize(
    "stage",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("supports", "compile")), "run"],
)
def test_a_search_over_a_backend_that_aborts_ends_with_a_front_of_the_others(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, tmp_path, aborts=stage)
    request = SearchRequest(branches(), SETTINGS, evaluations=4, effort=EFFORT)
    with caplog.at_level(logging.WARNING):
        found = find_front(request)
    assert "was ended by SIGABRT" in caplog.text
    assert found.points and all(NAME not in p.configuration.backends for p in found.points)


def test_costs_of_a_backend_that_aborts_are_those_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, aborts="run")
    path = tmp_path / "branches.tflite"
    path.write_bytes(branches())
    report = as_json("costs", path, "--backend", f"reference,{NAME}", "--seconds", "0.01")
    (network,) = report["networks"]
    times = {(row["backend"], row["kind"]): row["us"] for row in network["operators"]}
    assert times["reference", "TANH"] > 0
    assert times[NAME, "TANH"] is None
    refused = {row["refused"] for row in network["operators"] if row["backend"] == NAME}
    assert "the process that ran it was ended by SIGABRT" in refused


@pytest.mark.slow
def test_costs_of_what_hangs_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, tmp_path, hangs="run")
    effort = replace(EFFORT, limit_s=0.5)
    request = SearchRequest(branches(), SETTINGS._replace(timeout_s=0.5), evaluations=3)
    with caplog.at_level(logging.WARNING):
        found = find_front(replace(request, effort=effort))
    assert found.points and f"operator {NAME}" in caplog.text
