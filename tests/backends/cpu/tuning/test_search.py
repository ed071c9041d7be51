"""Tuning: candidates are tried in place, winners are kept, nothing becomes slower or differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.artifact.file import open_artifact
from circlet.backends.cpu.tuning.candidates import CandidateBuilder, Images
from circlet.backends.cpu.tuning.search import MOST_CANDIDATES, Tuning, agree
from circlet.backends.cpu.tuning.timer import BenchmarkTimer, Running, Times, is_faster
from circlet.backends.cpu.tuning.tuned import compile_tuned
from circlet.backends.cpu.tuning.variants import VARIANTS
from circlet.compiler.build import backends_of
from circlet.compiler.compile import compile_model
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import InputError, TargetError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.options import OpenOptions
from circlet.runtime.loading import NativePartition, Opened
from circlet.target.targets import parse_targets
from tests.backends.cpu.cases import Cases
from tests.windows import conv2d_attrs, depthwise_attrs

pytest.importorskip("ziglang", reason="candidates are compiled")
OPTIONS = OpenOptions(tune_seconds=60.0)


class FakeTimer:
    """Says that the plan at each position takes so many times the first one's time."""

    def __init__(
        self, factors: Sequence[float], network: Sequence[float] = (0.5, 0.5, 0.5)
    ) -> None:
        self.factors = factors
        self.network = list(network)
        self.stages: list[int] = []

    def steps(self, plans: Sequence[Opened], seconds: float) -> Times:
        self.stages.append(len(plans))
        widest = max(_step_count(plan) for plan in plans)
        factors = [*self.factors, *[1.0] * len(plans)][: len(plans)]
        times = np.ones((4, len(plans), widest)) * np.array(factors)[None, :, None]
        return 1e3 * times

    def runs(self, plans: Sequence[Opened], threads: int, seconds: float) -> Times:
        return np.array([[1.0, ratio] for ratio in self.network])


def _step_count(plan: Opened) -> int:
    codes = [part.code for part in plan.partitions]
    return sum(code.executable.step_count for code in codes if isinstance(code, NativePartition))


def strided() -> Graph:
    random = np.random.default_rng(0)
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 33, 33, 16))
    w = b.constant("w", random.standard_normal((64, 3, 3, 16)).astype(np.float32))
    return b.output(b.op("CONV_2D", [x, w, None], conv2d_attrs("SAME", 2, 2), name="conv")).build()


def of_bytes() -> Graph:
    cases, quant = Cases(), Quantization.per_tensor(0.05, 3)
    fine = Quantization.per_tensor(0.01)
    data = cases.data(DType.INT8, (1, 14, 14, 32), quant)
    weights = cases.constant(
        cases.values(DType.INT8, (48, 3, 3, 32)), Quantization.per_tensor(0.01)
    )
    wide = cases.op("CONV_2D", [data, weights], conv2d_attrs("SAME", 1, 1), quant=quant)
    taps = cases.constant(cases.values(DType.INT8, (1, 3, 3, 48)), fine)
    cases.op("DEPTHWISE_CONV_2D", [wide, taps], depthwise_attrs("SAME", 1, 1, 1), quant=quant)
    return cases.graph()


MODEL = bytes(dumps(Model([strided()]), "tflite"))
BYTES = bytes(dumps(Model([of_bytes()]), "tflite"))


def tuned(timer: FakeTimer, options: OpenOptions = OPTIONS) -> tuple[bytes, Tuning]:
    data, (record,) = compile_tuned(Template.read(MODEL, options), options, timer)
    return data, record


def code(artifact: bytes) -> list[bytes]:
    (part,) = open_artifact(artifact).code(0).partitions
    return [bytes(part.plan), bytes(part.constants), *map(bytes, part.units)]


UNTUNED = code(compile_model(MODEL, OpenOptions(cache=False)))


def test_without_a_winner_the_code_is_that_of_the_untuned_network() -> None:
    data, record = tuned(FakeTimer([1.0, 1.2, 1.0, 0.99]))
    assert (record.kept, record.choices) == (False, {})
    assert code(data) == UNTUNED


def test_a_winner_is_kept_and_stands_in_the_artifact() -> None:
    timer = FakeTimer([1.0, 1.1, 0.8, 0.9])
    data, record = tuned(timer)
    (answer,) = record.answers
    assert record.kept
    assert answer.ops == ("conv",)
    assert answer.taken == answer.measured[2].label != answer.default
    assert record.choices == {answer.question: answer.taken}
    assert code(data) != UNTUNED
    (kept,) = open_artifact(data).metadata["tuning"]
    assert kept["choices"] == record.choices
    assert kept["ratios"] == dict.fromkeys(record.ratios, 0.5)


def test_the_code_follows_from_the_choices_alone() -> None:
    assert code(tuned(FakeTimer([1.0, 1.1, 0.8]))[0]) == code(tuned(FakeTimer([1.0, 1.1, 0.7]))[0])


@pytest.mark.parametrize("network", [[1.2, 1.1, 1.2], [1.0, 1.0, 1.0], [0.995, 0.993, 0.994]])
def test_a_network_that_is_not_faster_stays_untuned(network: list[float]) -> None:
    data, record = tuned(FakeTimer([1.0, 0.5], network))
    assert record.choices
    assert not record.kept
    assert code(data) == UNTUNED


def test_no_more_plans_run_than_a_question_has_candidates_worth_trying() -> None:
    timer = FakeTimer([])
    _, record = tuned(timer)
    assert timer.stages == [len(record.answers[0].measured)]
    assert 2 <= timer.stages[0] <= MOST_CANDIDATES


def test_a_tuned_network_computes_the_same() -> None:
    untuned = compile_model(MODEL, OpenOptions(cache=False))
    data, _ = tuned(FakeTimer([1.0, 1.0, 0.5]))
    x = np.random.default_rng(1).standard_normal((1, 33, 33, 16)).astype(np.float32)
    (wanted,) = Session(untuned, threads=1).run([x]).values()
    for threads in (1, 2):
        (got,) = Session(data, threads=threads).run([x]).values()
        np.testing.assert_array_equal(got, wanted)


def test_code_for_another_machine_cannot_be_tuned() -> None:
    options = OPTIONS._replace(target="aarch64+neon,x86_64")
    with pytest.raises(TargetError, match="only be tuned on a machine that runs it"):
        compile_model(MODEL, options)


def test_each_target_is_tuned_by_itself() -> None:
    options = OPTIONS._replace(target="x86_64+v3,x86_64")
    data, records = compile_tuned(Template.read(MODEL, options), options, FakeTimer([1.0, 0.5]))
    assert [record.target for record in records] == open_artifact(data).target_names
    assert all(record.kept for record in records)


def test_a_network_that_numpy_runs_has_nothing_to_tune() -> None:
    data, record = tuned(FakeTimer([]), OPTIONS._replace(backends=("reference",)))
    assert (record.kept, record.answers) == (False, ())
    assert not open_artifact(data).code(0).partitions[0].units


def test_tuned_artifacts_have_a_place_of_their_own_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path))
    Session(MODEL)
    first, second = (Session(MODEL, tune_seconds=0.01) for _ in range(2))
    assert "compile" in first.opened.seconds
    assert "cache" in second.opened.seconds
    assert len(second.opened.metadata["tuning"]) == 1
    assert "tuning" not in Session(MODEL).opened.metadata


def shop_of(source: bytes) -> CandidateBuilder:
    template, targets = Template.read(source, OPTIONS), parse_targets("native")
    planned = plan(template.copy(), backends_of(targets, OPTIONS), OPTIONS)
    return CandidateBuilder(planned, targets[0], template, OPTIONS, Images())


def test_a_variant_takes_what_is_wanted() -> None:
    shop = shop_of(MODEL)
    (question,) = shop.plain.choices.questions.values()
    other = shop.variant({question.key: question.labels[1]})
    assert other.choices.questions[question.key].taken == question.labels[1]
    assert other.subjects.count(question.subject) >= 1


@pytest.mark.parametrize("source", [MODEL, BYTES], ids=["floats", "bytes"])
def test_all_tiles_of_a_kernel_give_the_same_bits(source: bytes) -> None:
    shop = shop_of(source)
    wanted = Running(shop.plain.opened).outputs()
    tiles = [q for q in shop.plain.choices.questions.values() if q.name.split()[0] in VARIANTS]
    assert tiles
    for question in tiles:
        for label in question.labels[1:6]:
            got = Running(shop.variant({question.key: label}).opened).outputs()
            for first, second in zip(wanted, got, strict=True):
                np.testing.assert_array_equal(first, second, err_msg=f"{question.key}: {label}")


def test_the_stopwatch_times_every_step() -> None:
    from circlet.runtime.opening import open_source

    opened = open_source(MODEL, OpenOptions(cache=False))
    times = BenchmarkTimer().steps([opened, opened], 0.01)
    assert times.shape[1:] == (2, _step_count(opened))
    assert (times > 0).all()
    runs = BenchmarkTimer().runs([opened, opened], 2, 0.01)
    assert runs.shape[1:] == (2,)
    assert (runs > 0).all()


@pytest.mark.parametrize(
    ("after", "faster"),
    [
        ([0.9, 0.91, 0.92], True),
        ([0.96, 0.96, 0.96], False),
        ([0.5, 0.9, 1.4, 1.5], False),
        ([0.9, 0.9, 0.9, 1.2], True),
        ([0.1], False),
        ([], False),
    ],
)
def test_rounds_must_agree(after: list[float], faster: bool) -> None:
    assert is_faster(np.ones(len(after)), np.array(after), 0.05) is faster


def test_what_disturbs_the_default_alone_lets_nothing_win() -> None:
    before, after = np.array([1.0, 5.0, 4.0, 6.0]), np.full(4, 0.99)
    assert not is_faster(before, after, 0.05)


def test_steps_that_take_no_time_let_nothing_win() -> None:
    assert not is_faster(np.zeros(4), np.zeros(4), 0.05)


def test_integers_must_be_the_same_and_floats_close() -> None:
    integers, floats = np.arange(4), np.linspace(0, 8, 5)
    assert agree(integers, integers.copy())
    assert not agree(integers, integers + 1)
    assert agree(floats, floats + 1e-5)
    assert not agree(floats, floats + 1e-2)
    assert agree(np.array([np.nan]), np.array([np.nan]))


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="tuning takes some time or none"):
        Session(MODEL, tune_seconds=seconds)


def test_sizes_that_depend_on_data_are_not_timed() -> None:
    b = builder()
    x = b.input("x", DType.BOOL, (4,))
    model = bytes(dumps(b.output(b.op("WHERE", [x], name="where")).model(), "tflite"))
    _, (record,) = compile_tuned(Template.read(model, OPTIONS), OPTIONS, FakeTimer([]))
    assert (record.kept, record.answers) == (False, ())
    assert "depend on the data" in record.why
