"""`python -m bench fit`: parameters of the cost model from what tuning measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import fit
from circlet.backends.cpu.costs import DEFAULT_COSTS, Costs
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.tuning.choices import Choices, Question, label_of
from circlet.target.targets import parse_target
from tests.backends.cpu.tuning.test_choices import compiled, convolution

TARGET = parse_target("x86_64+v4")
TRUTH = replace(DEFAULT_COSTS, piece=40.0)
SHAPES = [(33, 96, 16), (28, 96, 24), (14, 64, 16), (56, 48, 8), (10, 128, 12)]
TILES = [(11, 2), (7, 4), (3, 6), (5, 4), (14, 2), (4, 3)]
LABELS = [label_of(Tile(pixels, vectors)) for pixels, vectors in TILES]


def answers(truth: Costs) -> list[dict[str, Any]]:
    """What tuning would measure if the truth were these parameters."""
    rows = []
    for width, filters, depth in SHAPES:
        question = f"conv_f32 1x{width}x{width} by {filters}x1x1x{depth} of CONV_2D"
        sample = fit.sample_of(TARGET, question, [{"label": n, "us": 1.0} for n in LABELS])
        assert sample is not None
        pairs = zip(LABELS, sample.predictions, strict=True)
        measured = [{"label": label, "us": predict(truth)} for label, predict in pairs]
        rows.append({"question": question, "measured": measured})
    return rows


def samples(truth: Costs) -> Sequence[fit.Sample]:
    report = {"tuning": [{"target": str(TARGET), "answers": answers(truth)}]}
    (found,) = fit.samples_of([report]).values()
    return found


def test_regret_vanishes_with_the_right_parameters() -> None:
    found = samples(TRUTH)
    assert sum(sample.regret(DEFAULT_COSTS) for sample in found) > 0
    better = fit.fitted(DEFAULT_COSTS, found)
    assert sum(sample.regret(better) for sample in found) == pytest.approx(0)
    assert better.piece > 0


def test_parameters_that_fit_stay() -> None:
    assert fit.fitted(DEFAULT_COSTS, samples(DEFAULT_COSTS)) is DEFAULT_COSTS


def test_only_what_changed_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, data = tmp_path / "report.json", tmp_path / "costs.json"
    data.write_text("{}")
    monkeypatch.setattr(fit, "DATA", data)
    record = {"target": str(TARGET), "answers": answers(TRUTH)}
    report.write_text(json.dumps({"tuning": [record]}))
    fit.main([str(report)])
    assert data.read_text() == "{}"
    fit.main([str(report), "--write"])
    stored = json.loads(data.read_text())
    assert set(stored) == {"avx512"}
    assert 0 < len(stored["avx512"]) < 10


def question_of(stride: int) -> Question:
    choices = Choices()
    compiled(convolution(stride=stride), choices)
    return next(q for q in choices.questions.values() if q.name.startswith("conv_f32"))


def test_questions_as_lowerings_ask_them_are_understood() -> None:
    target = parse_target("x86_64+v3")
    question = question_of(2)
    sample = fit.sample_of(target, question.key, [{"label": n, "us": 1.0} for n in question.labels])
    assert sample is not None
    predicted = [predict(DEFAULT_COSTS) for predict in sample.predictions]
    assert predicted == pytest.approx(list(question.costs))


def test_questions_that_the_model_does_not_rank_are_left_out() -> None:
    one = [{"label": "8x2", "us": 1.0}]
    assert fit.sample_of(TARGET, "method 1x8x8 of CONV_2D", one * 2) is None
    assert fit.sample_of(TARGET, "conv_f32 1x8x8 by 64x1x1x8 of CONV_2D", one) is None
