"""Tuning: candidates are tried in place, winners are kept, nothing becomes slower or differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from circlet import Session
from circlet.artifact.file import PartitionCode, open_artifact
from circlet.backends.base import Compiled
from circlet.backends.cpu.tuning.candidates import Candidate, CandidateBuilder, Images
from circlet.backends.cpu.tuning.search import MOST_CANDIDATES, agree
from circlet.backends.cpu.tuning.timer import BenchmarkTimer, Running, Times, is_faster
from circlet.backends.cpu.tuning.tuned import TuningCompiler
from circlet.backends.cpu.tuning.variants import VARIANTS
from circlet.compiler.compile import compile_model
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import InputError, LimitError, TargetError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.options import Options
from circlet.plan.partition import Partition
from tests.backends.cpu.cases import Cases
from tests.windows import conv2d_attrs, depthwise_attrs

pytest.importorskip("ziglang", reason="candidates are compiled")
pytestmark = pytest.mark.usefixtures("units_for_any_cache")
OPTIONS = Options(tune_seconds=60.0)


class FakeTimer:
    """Says that the plan at each position takes so many times the first one's time."""

    def __init__(
        self, factors: Sequence[float], network: Sequence[float] = (0.5, 0.5, 0.5)
    ) -> None:
        self.factors = factors
        self.network = list(network)
        self.stages: list[int] = []

    def steps(self, plans: Sequence[Candidate], seconds: float) -> Times:
        self.stages.append(len(plans))
        widest = max(_step_count(plan) for plan in plans)
        factors = [*self.factors, *[1.0] * len(plans)][: len(plans)]
        times = np.ones((4, len(plans), widest)) * np.array(factors)[None, :, None]
        return 1e3 * times

    def runs(self, plans: Sequence[Candidate], threads: int, seconds: float) -> Times:
        return np.array([[1.0, ratio] for ratio in self.network])


def _step_count(plan: Candidate) -> int:
    return sum(executable.step_count for executable in plan.executables)


def strided() -> Graph:
    random = np.random.default_rng(0)
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 33, 33, 16))
    w = b.constant("w", random.standard_normal((64, 3, 3, 16)).astype(np.float32))
    return b.output(b.op("CONV_2D", [x, w, None], conv2d_attrs("SAME", 2, 2), name="conv")).build()


def int8_layers() -> Graph:
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
INT8 = bytes(dumps(Model([int8_layers()]), "tflite"))


def native(source: bytes, options: Options = OPTIONS) -> tuple[TuningCompiler, list[Partition]]:
    planned = plan(Template.read(source, options), options)
    compiler = planned.compilers[0]
    assert isinstance(compiler, TuningCompiler)
    return compiler, planned.partitions_of(compiler)


def tuned(timer: FakeTimer, options: Options = OPTIONS) -> tuple[Compiled, dict[str, Any]]:
    compiler, parts = native(MODEL, options)
    compiler.timer = timer
    compiled = compiler.compile(parts)
    return compiled, compiled.report["tuning"][0]


def code(compiled: Compiled) -> list[bytes]:
    (part,) = compiled.partitions
    return sections(next(iter(part.codes.values())))


def sections(part: PartitionCode) -> list[bytes]:
    units = map(bytes, part.sections["units"])
    return [bytes(part.section("plan")), bytes(part.constants), *units]


@pytest.fixture(scope="module")
def untuned() -> list[bytes]:
    artifact = open_artifact(compile_model(MODEL, Options(cache=False)))
    return sections(artifact.code(0).partitions[0])


def test_without_a_winner_the_code_is_that_of_the_untuned_network(untuned: list[bytes]) -> None:
    compiled, record = tuned(FakeTimer([1.0, 1.2, 1.0, 0.99]))
    assert (record["kept"], record["settings"]) == (False, {})
    assert code(compiled) == untuned


def test_a_winner_is_kept_and_reported(untuned: list[bytes]) -> None:
    compiled, record = tuned(FakeTimer([1.0, 1.1, 0.8, 0.9]))
    (result,) = record["results"]
    assert record["kept"]
    assert result["ops"] == ("conv",)
    assert result["taken"] == result["measured"][2]["label"] != result["default"]
    assert record["settings"] == {result["knob"]: result["taken"]}
    assert code(compiled) != untuned
    kept = cast(list[dict[str, Any]], compiled.facts["tuning"])[0]
    assert kept["settings"] == record["settings"] and "results" not in kept
    assert kept["ratios"] == dict.fromkeys(record["ratios"], 0.5)


def test_the_code_follows_from_the_choices_alone() -> None:
    first, second = tuned(FakeTimer([1.0, 1.1, 0.8])), tuned(FakeTimer([1.0, 1.1, 0.7]))
    assert code(first[0]) == code(second[0])


@pytest.mark.parametrize("network", [[1.2, 1.1, 1.2], [1.0, 1.0, 1.0], [0.995, 0.993, 0.994]])
def test_a_network_that_is_not_faster_stays_untuned(
    network: list[float], untuned: list[bytes]
) -> None:
    compiled, record = tuned(FakeTimer([1.0, 0.5], network))
    assert record["settings"]
    assert not record["kept"]
    assert code(compiled) == untuned


def test_no_more_plans_run_than_a_question_has_candidates_worth_trying() -> None:
    timer = FakeTimer([])
    _, record = tuned(timer)
    assert timer.stages == [len(record["results"][0]["measured"])]
    assert 2 <= timer.stages[0] <= MOST_CANDIDATES


def test_a_tuned_network_computes_the_same() -> None:
    x = np.random.default_rng(1).standard_normal((1, 33, 33, 16)).astype(np.float32)
    (wanted,) = Session(MODEL, threads=1).run([x]).values()
    for threads in (1, 2):
        session = Session(MODEL, threads=threads, tune_seconds=0.5, cache=False)
        (got,) = session.run([x]).values()
        np.testing.assert_array_equal(got, wanted)
        assert len(session.opened.metadata["tuning"]) == 1


def test_code_for_another_machine_cannot_be_tuned() -> None:
    options = OPTIONS._replace(target="aarch64+neon,x86_64")
    with pytest.raises(TargetError, match="only be tuned on a machine that runs it"):
        compile_model(MODEL, options)


def test_each_target_is_tuned_by_itself() -> None:
    options = OPTIONS._replace(target="x86_64+v3,x86_64")
    compiler, parts = native(MODEL, options)
    compiler.timer = FakeTimer([1.0, 0.5])
    compiled = compiler.compile(parts)
    records = compiled.report["tuning"]
    assert [record["target"] for record in records] == list(map(str, compiler.job.targets))
    assert all(record["kept"] for record in records)


def test_a_network_that_numpy_runs_has_nothing_to_tune() -> None:
    options = OPTIONS._replace(backends=("reference",))
    artifact = open_artifact(compile_model(MODEL, options))
    assert "tuning" not in artifact.metadata
    assert not {"plan", "units"} & artifact.code(0).partitions[0].sections.keys()


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


def builder_of(source: bytes) -> CandidateBuilder:
    compiler, parts = native(source)
    return CandidateBuilder(compiler, parts, compiler.job.targets[0], Images())


def test_a_variant_takes_what_is_wanted() -> None:
    candidates = builder_of(MODEL)
    (knob,) = candidates.plain.settings.knobs.values()
    other = candidates.variant({knob.key: knob.labels[1]})
    assert other.settings.knobs[knob.key].taken == knob.labels[1]
    assert other.workloads.count(knob.workload) >= 1


@pytest.mark.parametrize("source", [MODEL, INT8], ids=["float", "int8"])
def test_all_tiles_of_a_kernel_give_the_same_bits(source: bytes) -> None:
    candidates = builder_of(source)
    wanted = Running(candidates.plain).outputs()
    knobs = candidates.plain.settings.knobs.values()
    tiles = [knob for knob in knobs if knob.name.split()[0] in VARIANTS]
    assert tiles
    for knob in tiles:
        for label in knob.labels[1:6]:
            got = Running(candidates.variant({knob.key: label})).outputs()
            for first, second in zip(wanted, got, strict=True):
                np.testing.assert_array_equal(first, second, err_msg=f"{knob.key}: {label}")


def test_every_step_is_timed() -> None:
    plain = builder_of(MODEL).plain
    times = BenchmarkTimer().steps([plain, plain], 0.01)
    assert times.shape[1:] == (2, _step_count(plain))
    assert (times > 0).all()
    runs = BenchmarkTimer().runs([plain, plain], 2, 0.01)
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


def test_partitions_that_stop_on_random_data_are_not_tuned(
    monkeypatch: pytest.MonkeyPatch, untuned: list[bytes]
) -> None:
    def stop(running: Running) -> None:
        raise LimitError("a loop of the network did not end")

    monkeypatch.setattr(Running, "run", stop)
    compiled, record = tuned(FakeTimer([1.0, 0.5]))
    assert (record["kept"], record["results"]) == (False, ())
    assert "random data: a loop" in record["why"]
    assert code(compiled) == untuned
