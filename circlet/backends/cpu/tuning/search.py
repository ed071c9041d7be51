"""Chooses kernels by measuring them on this machine, in the place that they have in a network.

The knobs of lowerings are turned one after the other: candidates that differ in one setting
per op run in turn, and a setting is kept where most rounds agree that it saves time. In the end the
whole network runs tuned against untuned, and stays untuned unless it is faster and gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.cpu.tuning.candidates import Candidate, CandidateBuilder
from circlet.backends.cpu.tuning.knobs import KnobReport
from circlet.backends.cpu.tuning.timer import Running, Timer, Times, is_faster
from circlet.backends.cpu.tuning.variants import stays_in_class
from circlet.errors import CircletError, TargetError
from circlet.progress import Stage
from circlet.target.host import host_model
from circlet.target.targets import Target, missing_on_host
from circlet.target.threads import usable_cores
from circlet.words import counted

MOST_CANDIDATES = 6
_WORTH_TRYING = 1.6
_CANDIDATE_MARGIN, _NETWORK_MARGIN = 0.03, 0.01
_VERIFY_SHARE = 0.3
_FLOAT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Measured:
    """One candidate: its label, its predicted time over the default's, and its least time."""

    label: str
    predicted: float
    us: float


@dataclass(frozen=True)
class KnobResult:
    """What was found out about one knob.

    Attributes:
        ops: Names of the operators that it is about.
        default: What is taken without tuning.
        taken: What won.
        measured: The candidates that were tried, the default first.
    """

    knob: str
    ops: tuple[str, ...]
    default: str
    taken: str
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Tuning:
    """What tuning for one target did.

    Attributes:
        machine: The processor that was measured.
        kept: Whether the network was compiled with `settings`.
        why: What decided that.
        ratios: Median time of the tuned network over the untuned one's, by threads.
        settings: The settings that won, by knob; the code has them where it is `kept`.
        results: All results.
        seconds: How long it took.
    """

    target: str
    machine: str
    kept: bool
    why: str
    ratios: Mapping[str, float]
    settings: Mapping[str, str]
    results: tuple[KnobResult, ...]
    seconds: float

    @property
    def summary(self) -> dict[str, object]:
        """What artifacts keep of it."""
        return {key: value for key, value in asdict(self).items() if key != "results"}


def check_measurable(targets: Iterable[Target]) -> None:
    """TargetError where this machine cannot run what is to be tuned."""
    for target in targets:
        missing = missing_on_host(target)
        if missing:
            raise TargetError(
                "code can only be tuned on a machine that runs it",
                where=str(target),
                why=f"this one lacks {', '.join(missing)}",
                fix="compile without tuning, or tune on a machine of the target",
            )


def tune(
    builder: CandidateBuilder,
    target: Target,
    seconds: float,
    timer: Timer,
    stage: Stage | None = None,
) -> tuple[Sequence[LoweredPartition], Tuning]:
    """The native partitions with the settings to keep, and what was found out.

    Args:
        seconds: How long to measure, compiling the candidates included.
        timer: What measures.
        stage: Is told what is compiled and measured.
    """
    stage = stage or Stage("tuning", seconds, "seconds")
    start = perf_counter()
    plain, found = builder.plain, Findings({}, [])
    ratios: dict[str, float] = {}
    try:
        Running(plain).run()
    except CircletError as error:  # an index that a network computes may not be any number
        kept, why = plain, f"its partitions do not run on random data: {error.what}"
    else:
        found = _Search(builder, timer, (1 - _VERIFY_SHARE) * seconds, stage).found()
        stage.note("comparing the tuned network with the untuned one")
        kept, ratios, why = _verdict(builder, found.wanted, timer, _VERIFY_SHARE * seconds)
    return kept.compiled, Tuning(
        target=str(target),
        machine=host_model(),
        kept=kept is not plain,
        why=why,
        ratios=ratios,
        settings=found.wanted,
        results=tuple(found.results),
        seconds=round(perf_counter() - start, 2),
    )


def _verdict(
    builder: CandidateBuilder, wanted: Mapping[str, str], timer: Timer, seconds: float
) -> tuple[Candidate, dict[str, float], str]:
    """The plan to keep, the ratios of the whole network by threads, and the reason."""
    plain = builder.plain
    if not wanted:
        return plain, {}, "no candidate was faster than the default"
    tuned = builder.whole(wanted)
    first, second = (Running(plan).outputs() for plan in (plain, tuned))
    if not all(map(agree, first, second)):
        return plain, {}, "the tuned network's results differ by too much"
    counts = sorted({1, usable_cores()})
    pair, each = [plain, tuned], seconds / len(counts)
    rounds = {str(n): timer.runs(pair, n, each) for n in counts}
    ratios = {n: round(float(np.median(r[:, 1] / r[:, 0])), 4) for n, r in rounds.items()}
    gains = any(is_faster(r[:, 0], r[:, 1], _NETWORK_MARGIN) for r in rounds.values())
    if gains and max(ratios.values()) <= 1:
        return tuned, ratios, "the tuned network is faster"
    return plain, ratios, "the tuned network as a whole is not faster"


def agree(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether integers are the same, and floats within the bar of a network."""
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    scale = max(1.0, float(np.abs(first).max(initial=0)))
    return bool(np.allclose(second, first, 0, _FLOAT_TOLERANCE * scale, equal_nan=True))


@dataclass
class Findings:
    """Settings that beat the defaults, by knob, and everything that was measured."""

    wanted: dict[str, str]
    results: list[KnobResult]


class _Search:
    """Turns knobs in stages: one of each workload at a time, for all workloads together."""

    def __init__(
        self, builder: CandidateBuilder, timer: Timer, seconds: float, stage: Stage
    ) -> None:
        self._builder, self._timer, self._stage = builder, timer, stage
        self._deadline = perf_counter() + seconds
        self._found = Findings({}, [])

    def found(self) -> Findings:
        """What the time suffices for."""
        current, seen = self._builder.plain, set[str]()
        while self._left() > 0:
            stage = _one_of_each(knob for knob in _to_measure(current) if knob.key not in seen)
            if not stage:
                break
            seen |= {knob.key for knob in stage}
            results = self._results(stage, current)
            self._found.results += results
            won = {a.knob: a.taken for a in results if a.taken != a.default}
            if won:
                self._found.wanted |= won
                current = self._builder.variant(self._found.wanted)
        return self._found

    def _left(self) -> float:
        return self._deadline - perf_counter()

    def _results(self, stage: Sequence[KnobReport], current: Candidate) -> list[KnobResult]:
        """Results of one stage, from as many plans as a knob has candidates."""
        labels = {knob.key: _worth_trying(knob) for knob in stage}
        plans, half = [current], self._left() / 2
        kernels = counted(len(stage), "kernel")
        self._stage.note(f"compiling variants of {kernels}")
        for turn in range(1, max(map(len, labels.values()))):
            tried = {key: own[turn] for key, own in labels.items() if turn < len(own)}
            plans.append(self._builder.variant({**self._found.wanted, **tried}))
            if self._left() < half:
                break
        variants = sum(map(len, labels.values()))
        self._stage.note(f"measuring {counted(variants, 'variant')} of {kernels}")
        times = self._timer.steps(plans, self._left() / 2)
        return [_result(knob, labels[knob.key], plans, times) for knob in stage]


def _to_measure(plan: Candidate) -> list[KnobReport]:
    """Knobs with several candidates worth trying, of ops that have steps of their own."""
    timed = frozenset(plan.workloads)
    seen = plan.settings.knobs.values()
    return [knob for knob in seen if knob.workload in timed and len(_worth_trying(knob)) > 1]


def _one_of_each(knobs: Iterable[KnobReport]) -> list[KnobReport]:
    """The first knob of each workload: those behind it may depend on its setting."""
    first: dict[str, KnobReport] = {}
    for knob in knobs:
        first.setdefault(knob.workload, knob)
    return list(first.values())


def _worth_trying(knob: KnobReport) -> list[str]:
    """The default, then the candidates with the least predicted times."""
    ranked = sorted(zip(knob.costs, knob.labels, strict=True))
    most = _WORTH_TRYING * ranked[0][0]
    near = [label for cost, label in ranked if cost <= most and label != knob.taken]
    others = [label for label in near if stays_in_class(knob.taken, label)]
    return [knob.taken, *others[: MOST_CANDIDATES - 1]]


def _result(
    knob: KnobReport, labels: Sequence[str], plans: Sequence[Candidate], times: Times
) -> KnobResult:
    """The candidate with the least time, where rounds agree that it is faster."""
    rounds = np.stack(
        [_of_workload(knob.workload, plan, times[:, n]) for n, plan in enumerate(plans)], axis=1
    )[:, : len(labels)]
    tried = labels[: rounds.shape[1]]
    least = rounds.min(axis=0)
    best = int(least.argmin())
    wins = is_faster(rounds[:, 0], rounds[:, best], _CANDIDATE_MARGIN)
    costs = dict(zip(knob.labels, knob.costs, strict=True))
    base = costs[knob.taken] or 1.0
    return KnobResult(
        knob=knob.key,
        ops=knob.ops,
        default=knob.taken,
        taken=tried[best] if wins else knob.taken,
        measured=tuple(
            Measured(label, round(costs[label] / base, 3), round(float(ns) / 1e3, 3))
            for label, ns in zip(tried, least, strict=True)
        ),
    )


def _of_workload(workload: str, plan: Candidate, times: Times) -> Times:
    """Nanoseconds by round that the steps of a kind of op take in a plan."""
    own = [step for step, name in enumerate(plan.workloads) if name == workload]
    total: Times = times[:, own].sum(axis=1)
    return total
