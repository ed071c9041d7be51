"""Chooses kernels by measuring them on this machine, in the place that they have in a network.

The questions that lowerings ask are answered one after the other: plans that differ in one answer
per op run in turn, and an answer is kept where most rounds agree that it saves time. In the end the
whole network runs tuned against untuned, and stays untuned unless it is faster and gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from circlet.backends.cpu.compile import CompiledPartition
from circlet.backends.cpu.tuning.candidates import Candidate, CandidateBuilder
from circlet.backends.cpu.tuning.choices import Question
from circlet.backends.cpu.tuning.timer import Running, Timer, Times, is_faster
from circlet.backends.cpu.tuning.variants import stays_in_class
from circlet.errors import CircletError, TargetError
from circlet.target.host import host_model
from circlet.target.targets import Target, missing_on_host
from circlet.target.threads import usable_cores

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
class Answer:
    """What was found out about one question.

    Attributes:
        ops: Names of the operators that it is about.
        default: What is taken without tuning.
        taken: What won.
        measured: The candidates that were tried, the default first.
    """

    question: str
    ops: tuple[str, ...]
    default: str
    taken: str
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Tuning:
    """What tuning for one target did.

    Attributes:
        machine: The processor that was measured.
        kept: Whether the network was compiled with `choices`.
        why: What decided that.
        ratios: Median time of the tuned network over the untuned one's, by threads.
        choices: The answers that won, by question; the code has them where it is `kept`.
        answers: All answers.
        seconds: How long it took.
    """

    target: str
    machine: str
    kept: bool
    why: str
    ratios: Mapping[str, float]
    choices: Mapping[str, str]
    answers: tuple[Answer, ...]
    seconds: float

    @property
    def summary(self) -> dict[str, object]:
        """What artifacts keep of it."""
        return {key: value for key, value in asdict(self).items() if key != "answers"}


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
    builder: CandidateBuilder, target: Target, seconds: float, timer: Timer
) -> tuple[Sequence[CompiledPartition], Tuning]:
    """The native partitions with the choices to keep, and what was found out.

    Args:
        seconds: How long to measure, compiling the candidates included.
        timer: What measures.
    """
    start = perf_counter()
    plain, found = builder.plain, Findings({}, [])
    ratios: dict[str, float] = {}
    try:
        Running(plain).run()
    except CircletError as error:  # an index that a network computes may not be any number
        kept, why = plain, f"its partitions do not run on random data: {error.what}"
    else:
        found = _Search(builder, timer, (1 - _VERIFY_SHARE) * seconds).found()
        kept, ratios, why = _verdict(builder, found.wanted, timer, _VERIFY_SHARE * seconds)
    return kept.compiled, Tuning(
        target=str(target),
        machine=host_model(),
        kept=kept is not plain,
        why=why,
        ratios=ratios,
        choices=found.wanted,
        answers=tuple(found.answers),
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
    """Answers that beat the defaults, by question, and everything that was measured."""

    wanted: dict[str, str]
    answers: list[Answer]


class _Search:
    """Answers questions in stages: one of each kind of op at a time, for all kinds at once."""

    def __init__(self, builder: CandidateBuilder, timer: Timer, seconds: float) -> None:
        self._workshop, self._timer = builder, timer
        self._deadline = perf_counter() + seconds
        self._found = Findings({}, [])

    def found(self) -> Findings:
        """What the time suffices for."""
        current, asked = self._workshop.plain, set[str]()
        while self._left() > 0:
            stage = _one_of_each(q for q in _to_measure(current) if q.key not in asked)
            if not stage:
                break
            asked |= {question.key for question in stage}
            answers = self._answers(stage, current)
            self._found.answers += answers
            won = {a.question: a.taken for a in answers if a.taken != a.default}
            if won:
                self._found.wanted |= won
                current = self._workshop.variant(self._found.wanted)
        return self._found

    def _left(self) -> float:
        return self._deadline - perf_counter()

    def _answers(self, stage: Sequence[Question], current: Candidate) -> list[Answer]:
        """Answers of one stage, from as many plans as a question has candidates."""
        labels = {question.key: _worth_trying(question) for question in stage}
        plans, half = [current], self._left() / 2
        for turn in range(1, max(map(len, labels.values()))):
            tried = {key: own[turn] for key, own in labels.items() if turn < len(own)}
            plans.append(self._workshop.variant({**self._found.wanted, **tried}))
            if self._left() < half:
                break
        times = self._timer.steps(plans, self._left() / 2)
        return [_answer(question, labels[question.key], plans, times) for question in stage]


def _to_measure(plan: Candidate) -> list[Question]:
    """Questions with several answers worth trying, about ops that have steps of their own."""
    timed = frozenset(plan.subjects)
    asked = plan.choices.questions.values()
    return [q for q in asked if q.subject in timed and len(_worth_trying(q)) > 1]


def _one_of_each(questions: Iterable[Question]) -> list[Question]:
    """The first question of each subject: those behind it may depend on its answer."""
    first: dict[str, Question] = {}
    for question in questions:
        first.setdefault(question.subject, question)
    return list(first.values())


def _worth_trying(question: Question) -> list[str]:
    """The default, then the candidates with the least predicted times."""
    ranked = sorted(zip(question.costs, question.labels, strict=True))
    most = _WORTH_TRYING * ranked[0][0]
    near = [label for cost, label in ranked if cost <= most and label != question.taken]
    others = [label for label in near if stays_in_class(question.taken, label)]
    return [question.taken, *others[: MOST_CANDIDATES - 1]]


def _answer(
    question: Question, labels: Sequence[str], plans: Sequence[Candidate], times: Times
) -> Answer:
    """The candidate with the least time, where rounds agree that it is faster."""
    rounds = np.stack(
        [_of_subject(question.subject, plan, times[:, n]) for n, plan in enumerate(plans)], axis=1
    )[:, : len(labels)]
    tried = labels[: rounds.shape[1]]
    least = rounds.min(axis=0)
    best = int(least.argmin())
    wins = is_faster(rounds[:, 0], rounds[:, best], _CANDIDATE_MARGIN)
    costs = dict(zip(question.labels, question.costs, strict=True))
    base = costs[question.taken] or 1.0
    return Answer(
        question=question.key,
        ops=question.ops,
        default=question.taken,
        taken=tried[best] if wins else question.taken,
        measured=tuple(
            Measured(label, round(costs[label] / base, 3), round(float(ns) / 1e3, 3))
            for label, ns in zip(tried, least, strict=True)
        ),
    )


def _of_subject(subject: str, plan: Candidate, times: Times) -> Times:
    """Nanoseconds by round that the steps of a kind of op take in a plan."""
    own = [step for step, name in enumerate(plan.subjects) if name == subject]
    total: Times = times[:, own].sum(axis=1)
    return total
