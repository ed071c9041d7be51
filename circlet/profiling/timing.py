"""Times the runs of a session: each as a whole, and within it what its backends tell of.

Runs with nothing timed inside take turns with those that are timed, so that what timing costs is
known. Everything reported is a mean over the same timed runs, so that parts add up to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import TypeVar

import numpy as np

from circlet.backends.base import Executable, Observation, Runner
from circlet.backends.memory import OwnMemory
from circlet.backends.profiled import TimesSteps, TimesThreads
from circlet.errors import BackendError
from circlet.progress import Stage
from circlet.runtime.executor import Execution, living
from circlet.runtime.session import Session
from circlet.runtime.transfers import CopyStep

T = TypeVar("T")
_WARM_NS = 200_000_000
_WARM_RUNS = 20
_FEWEST, _MOST = 8, 4000
_THREAD_RUNS = 8


@dataclass(frozen=True)
class Part:
    """One operator that a backend told of, or a partition that runs as a whole.

    `ns` is what it took itself, without the operators of its branches and loops, `range_ns` its
    least and its most.
    """

    kind: str
    name: str
    ns: float
    range_ns: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class PartitionTimes:
    """One partition: nanoseconds of its steps, or else of the operators that it told of.

    `range_ns` are the least and the most of each step, `busy_ns` what each thread worked on it, in
    some further runs.
    """

    whole_ns: float
    step_ns: tuple[float, ...] = ()
    range_ns: tuple[tuple[float, float], ...] = ()
    busy_ns: tuple[tuple[float, ...], ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class CopyTime:
    """A copy of a value, by its position in the plan, to or from the memory of a partition."""

    value: int
    partition: int
    is_upload: bool
    memory: str
    ns: float


@dataclass(frozen=True)
class RunTimes:
    """Times of runs, in nanoseconds.

    Attributes:
        whole_ns: A timed run.
        plain_ns: A run with nothing timed.
        fastest_ns: The fastest of these.
        range_ns: The fastest and the slowest of the runs that count.
        overhead: What timing added to a run, as a share of it: by the fastest tenth of the timed
            runs and of the others, which what else the machine does disturbs least.
        runs: How many were timed.
        partitions: In the order of the plan.
        copies: What was copied to and from memory of backends' own.
    """

    whole_ns: float
    plain_ns: float
    fastest_ns: float
    range_ns: tuple[float, float]
    overhead: float
    runs: int
    partitions: tuple[PartitionTimes, ...]
    copies: tuple[CopyTime, ...] = ()


def time_session(
    session: Session,
    inputs: Sequence[np.ndarray],
    runs: int | None = None,
    seconds: float = 1.0,
) -> RunTimes:
    """Run a session again and again on the same inputs.

    Args:
        runs: How many runs are timed; as many as take so many seconds where it is None.

    Raises:
        CircletError: A run fails.
    """
    timers: list[_Timer] = []
    execution = _execution(session, inputs, timers)
    _warm_up(execution.run)
    samples: list[_Sample] = []
    plain: list[int] = []
    stage = Stage("timing", runs or 0, "runs")
    deadline = perf_counter_ns() + seconds * 1e9
    while not _is_enough(len(samples), runs, deadline):
        plain.append(_timed(execution.run))
        for timer in timers:
            timer.start()
        whole = _timed(execution.run)
        copies = [step.ns for step in execution.copies]
        samples.append(_Sample(whole, [timer.stop() for timer in timers], copies))
        stage.advance(1)
    times = _means(samples, plain, execution.copies)
    return times if session.threads == 1 else _with_threads(times, execution.run, timers)


def _with_threads(times: RunTimes, run: Callable[[], None], timers: Sequence[_Timer]) -> RunTimes:
    """The times with those of each thread: to take these slows runs down, so they are others."""
    clocks = [timer.thread_clock(True) for timer in timers]
    sums: list[np.ndarray | None] = [None] * len(timers)
    for _ in range(_THREAD_RUNS):
        run()
        for number, clock in enumerate(clocks):
            if clock is not None:
                known = sums[number]
                sums[number] = clock.copy() if known is None else known + clock
    for timer in timers:
        timer.thread_clock(False)
    rows = [
        row if busy is None else replace(row, busy_ns=_rows(busy / _THREAD_RUNS))
        for row, busy in zip(times.partitions, sums, strict=True)
    ]
    return replace(times, partitions=tuple(rows))


def _rows(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, table.tolist()))


def _is_enough(done: int, runs: int | None, deadline: float) -> bool:
    if runs is not None:
        return done >= runs
    return done >= _MOST or (done >= _FEWEST and perf_counter_ns() > deadline)


def _execution(session: Session, inputs: Sequence[np.ndarray], timers: list[_Timer]) -> Execution:
    """The session's plan on buffers of its own, with a timer around each partition."""
    opened = session.opened
    buffers = [value.empty() for value in opened.values]
    for number, array in zip(opened.inputs, inputs, strict=True):
        buffers[number][...] = array
    partitions = [part._replace(code=_Timed(part.code, timers)) for part in opened.partitions]
    state = living(opened.values, buffers)
    return Execution(partitions, buffers, session.threads, state, opened.outputs)


class _Timed:
    """Loaded code whose runners are timed."""

    def __init__(self, code: Executable, timers: list[_Timer]) -> None:
        self._code, self._timers = code, timers

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        timer = _Timer(self._code.bind(inputs, outputs, threads))
        self._timers.append(timer)
        return timer


class _Timer:
    """A runner that takes down what a run of it took, from `start` to `stop`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.run: Callable[..., None] = runner.run
        self.output, self.cancel = runner.output, runner.cancel
        self.set_input, self.set_output = runner.set_input, runner.set_output
        self.observe = runner.observe
        self.keeps_timeouts = getattr(runner, "keeps_timeouts", False)
        if isinstance(runner, OwnMemory):
            self.memory, self.share_input = runner.memory, runner.share_input
            self.upload, self.download = runner.upload, runner.download
            self.input_memory, self.output_memory = runner.input_memory, runner.output_memory
        self._clock: np.ndarray | None = None
        self._seen: _Seen | None = None
        self._whole = 0

    def start(self) -> None:
        """Time the next run."""
        if isinstance(self._runner, TimesSteps):
            self._clock = self._runner.profile()
            return
        self.run, self._seen, self._whole = self._run, None, 0
        seen = _Seen()
        with suppress(BackendError):  # it shows nothing: the partition counts as one
            self._runner.observe(seen)
            self._seen = seen

    def stop(self) -> PartitionTimes:
        """What the run took; times nothing any more."""
        self.run = self._runner.run
        if self._clock is not None and isinstance(self._runner, TimesSteps):
            self._runner.profile(False)
            return PartitionTimes(float(self._clock.sum()), tuple(self._clock.tolist()))
        if self._seen is None:
            return PartitionTimes(self._whole)
        self._runner.observe(None)
        return PartitionTimes(self._whole, parts=tuple(self._seen.parts))

    def thread_clock(self, enabled: bool) -> np.ndarray | None:
        """What each thread works on each step from now on; None where the backend does not tell."""
        runner = self._runner
        return runner.profile_threads(enabled) if isinstance(runner, TimesThreads) else None

    def _run(self, timeout_ns: int = 0) -> None:
        start = perf_counter_ns()
        self._runner.run(timeout_ns)
        self._whole += perf_counter_ns() - start


@dataclass
class _Seen:
    """An observer that takes what operators of branches and loops took out of the outer one."""

    parts: list[Part] = field(default_factory=list)
    _inner: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, observation: Observation) -> None:
        end = perf_counter_ns()
        start, inside = end - observation.ns, 0
        while self._inner and self._inner[-1][0] > start:
            inside += self._inner.pop()[1]
        self._inner.append((end, observation.ns))
        own = max(0, observation.ns - inside)
        self.parts.append(Part(observation.kind, observation.name, own))


@dataclass(frozen=True)
class _Sample:
    whole: int
    partitions: list[PartitionTimes]
    copies: list[int]


def _warm_up(run: Callable[[], None]) -> None:
    """Runs that do not count: caches fill, and threads find out which steps they are worth."""
    end = perf_counter_ns() + _WARM_NS
    for _ in range(_WARM_RUNS):
        run()
        if perf_counter_ns() > end:
            return


def _timed(run: Callable[[], None]) -> int:
    start = perf_counter_ns()
    run()
    return perf_counter_ns() - start


def _means(
    samples: Sequence[_Sample], plain: Sequence[int], copies: Sequence[CopyStep]
) -> RunTimes:
    kept = _middle_half(samples, [sample.whole for sample in samples])
    times = [sample.whole for sample in kept]
    return RunTimes(
        whole_ns=float(np.mean(times)),
        plain_ns=float(np.mean(_middle_half(plain, plain))),
        fastest_ns=min(plain),
        range_ns=(min(times), max(times)),
        overhead=_fastest([sample.whole for sample in samples]) / _fastest(plain) - 1,
        runs=len(samples),
        partitions=tuple(map(_mean, zip(*(sample.partitions for sample in kept), strict=True))),
        copies=tuple(
            CopyTime(step.value, step.partition, step.is_upload, step.memory, float(np.mean(ns)))
            for step, ns in zip(copies, zip(*(s.copies for s in kept), strict=True), strict=True)
        ),
    )


def _fastest(times: Sequence[int]) -> float:
    """The mean of the fastest tenth."""
    return max(1.0, float(np.mean(sorted(times)[: max(1, len(times) // 10)])))


def _middle_half(items: Sequence[T], times: Sequence[float]) -> list[T]:
    """The items whose times are neither among the quarter of the fastest nor of the slowest."""
    order = np.argsort(np.asarray(times), kind="stable")
    cut = len(order) // 4
    return [items[number] for number in order[cut : len(order) - cut]]


def _mean(rows: tuple[PartitionTimes, ...]) -> PartitionTimes:
    """The mean of each step; of operators by kind and name, as loops may turn differently often."""
    whole = float(np.mean([row.whole_ns for row in rows]))
    if rows[0].step_ns:
        steps = np.array([row.step_ns for row in rows])
        ranges = zip(steps.min(0).tolist(), steps.max(0).tolist(), strict=True)
        return PartitionTimes(whole, tuple(steps.mean(0).tolist()), tuple(ranges))
    times: dict[tuple[str, str], list[float]] = {}
    for number, row in enumerate(rows):
        for part in row.parts:
            known = times.setdefault((part.kind, part.name), [0.0] * len(rows))
            known[number] += part.ns
    parts = (
        Part(kind, name, sum(own) / len(rows), (min(own), max(own)))
        for (kind, name), own in times.items()
    )
    return PartitionTimes(whole, parts=tuple(parts))
