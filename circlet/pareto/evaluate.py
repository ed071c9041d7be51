"""Runs configurations and measures them: time, memory, and whether the answer is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import perf_counter, perf_counter_ns

import numpy as np

from circlet.apart import Tell
from circlet.comparison.networks import class_of
from circlet.comparison.outputs import TOLERANCES, difference
from circlet.comparison.ratios import interval
from circlet.errors import CircletError, InputError, check_type
from circlet.formats import load
from circlet.options import Options
from circlet.pareto.settings import MEMORY, EvaluationSettings, options_of
from circlet.placement.problem import Configuration, Measurement
from circlet.profiling.phases import TIMEOUT_S, measure_phases
from circlet.profiling.profiler import random_inputs
from circlet.runtime.adaptive import session_bytes
from circlet.runtime.session import Session
from circlet.scratch import scratch_folder

_SECONDS_OF_CHILD = 0.1


def evaluate(
    model: bytes | Path, configuration: Configuration, settings: EvaluationSettings
) -> Measurement:
    """Run a configuration and measure it; arguments and answer may cross processes.

    A configuration that cannot be opened, does not run or answers wrongly is a measurement too: of
    infinite time and memory, with the reason.

    Raises:
        InputError: The settings are not what they may be.
    """
    return evaluate_together(model, [configuration], settings)[0]


def evaluate_together(
    model: bytes | Path,
    configurations: Sequence[Configuration],
    settings: EvaluationSettings,
    tell: Tell = lambda number, limit_s: None,
) -> list[Measurement]:
    """Measure configurations side by side: in each round every one has its turn.

    Args:
        tell: Is called before each step with the number of the configuration that takes it, and
            the seconds that it may take.

    Raises:
        InputError: The settings are not what they may be.
    """
    check_settings(settings)
    opened: list[_Trial | Measurement] = []
    for number, configuration in enumerate(configurations):
        tell(number, settings.opening_s)
        opened.append(_opened(model, configuration, settings))
    runnable = [(n, trial) for n, trial in enumerate(opened) if isinstance(trial, _Trial)]
    for _ in range(settings.rounds):
        for number, trial in runnable:
            tell(number, settings.timeout_s)
            trial.take_turn(settings.seconds)
    found = []
    for number, each in enumerate(opened):
        tell(number, 2 * TIMEOUT_S)
        found.append(each if isinstance(each, Measurement) else _measured(model, each, settings))
    return found


def check_settings(settings: EvaluationSettings) -> None:
    """See that settings are what they may be; raises InputError."""
    check_type(settings.rounds, int, "rounds", "a whole number")
    if settings.rounds < 1 or settings.memory not in MEMORY:
        fix = f"measure in one round at least, and memory as {' or '.join(MEMORY)}"
        why = f"rounds={settings.rounds}, memory={settings.memory!r}"
        raise InputError("nothing can be measured so", where="settings", why=why, fix=fix)


@dataclass
class _Trial:
    """A configuration that runs and answers rightly."""

    configuration: Configuration
    options: Options
    session: Session
    call: Callable[[], object]
    difference: float
    failure: CircletError | None = None
    times_ns: list[float] = field(default_factory=list)

    def take_turn(self, seconds: float) -> None:
        """Time runs for so long, and keep their median."""
        times: list[float] = []
        end = perf_counter() + seconds
        while self.failure is None and (not times or perf_counter() < end):
            start = perf_counter_ns()
            try:
                self.call()
            except CircletError as error:
                self.failure = error
            times.append(float(perf_counter_ns() - start))
        self.times_ns += [float(np.median(times))] if times else []


def _opened(
    model: bytes | Path, configuration: Configuration, settings: EvaluationSettings
) -> _Trial | Measurement:
    """The configuration ready to run, or its failure."""
    try:
        options = options_of(configuration, settings.options)
        session = Session.of(model, options, threads=configuration.setting.threads)
        inputs = random_inputs(session)
        found = session.run(inputs, timeout=settings.timeout_s)
        expected = _expected(_Kept(model), settings.options, settings.reference)
        apart = difference(expected, found)
        tolerated = _tolerance(_Kept(model), settings)
        if not apart.part <= tolerated:
            note = apart.note or f"they differ by {apart.part:.3g} of their range"
            return _failure(f"the outputs are wrong: {note}", "", apart.part / tolerated)
        call = _call(session, inputs, settings.timeout_s)
        for _ in range(settings.warmup):
            call()
    except CircletError as error:
        return failed(error)
    return _Trial(configuration, options, session, call, apart.part / tolerated)


def _call(session: Session, inputs: list[np.ndarray], timeout: float) -> Callable[[], object]:
    if any(value.is_dynamic for value in session.outputs):
        return lambda: session.run(inputs, timeout=timeout)
    bound = session.bind([value.empty() for value in session.inputs])
    for buffer, array in zip(bound.inputs, inputs, strict=True):
        buffer[...] = array
    return bound.run


def _measured(model: bytes | Path, trial: _Trial, settings: EvaluationSettings) -> Measurement:
    if trial.failure is not None:
        return failed(trial.failure)
    time = interval(trial.times_ns)
    planned = session_bytes(trial.session)
    rss = 0
    if settings.memory == "process":
        try:
            rss = process_bytes(model, trial.options, trial.configuration.setting.threads)
        except CircletError as error:
            return failed(error)
    return Measurement(
        time.middle,
        float(rss or planned),
        time.low,
        time.high,
        len(trial.times_ns),
        trial.difference,
        rss_bytes=rss,
        partitions=len(trial.session.opened.partitions),
    )


def process_bytes(model: bytes | Path, options: Options, threads: int) -> int:
    """What a fresh process holds while it runs a network, beyond what Python and numpy do.

    Raises:
        BackendError: The process failed.
    """
    if isinstance(model, Path):
        phases = measure_phases(model, options, threads, _SECONDS_OF_CHILD).phases
        return max(1, phases[-1].rss_bytes - phases[0].rss_bytes)
    with scratch_folder() as folder:
        path = Path(folder) / "model"
        path.write_bytes(model)
        return process_bytes(path, options, threads)


class _Kept:
    """A model by what it holds, so that what is known of it is found again."""

    def __init__(self, model: bytes | Path) -> None:
        self.model = model
        self._mark = _mark(model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and other._mark == self._mark

    def __hash__(self) -> int:
        return hash(self._mark)


def _mark(model: bytes | Path) -> object:
    if isinstance(model, Path) and model.exists():
        about = model.stat()
        return str(model.resolve()), about.st_mtime_ns, about.st_size
    return str(model) if isinstance(model, Path) else sha256(model).hexdigest()


@lru_cache(maxsize=8)
def _expected(kept: _Kept, options: Options, reference: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The outputs of the reference on the inputs that all configurations are given."""
    options = options._replace(backends=reference, backend_of=(), strict=False)
    session = Session.of(kept.model, options)
    return session.run(random_inputs(session))


@lru_cache(maxsize=8)
def _class_of(kept: _Kept) -> str:
    return class_of(load(kept.model))


def _tolerance(kept: _Kept, settings: EvaluationSettings) -> float:
    if settings.tolerance is not None:
        return settings.tolerance
    is_rounded = settings.options.precision not in (None, "f32")
    return TOLERANCES["hybrid" if is_rounded else _class_of(kept)]


def failed(error: CircletError) -> Measurement:
    """The measurement of a configuration that gave no answer."""
    parts = filter(None, (error.what, error.where, error.why))
    return _failure(": ".join(parts), error.code)


def _failure(error: str, code: str, apart: float = 0.0) -> Measurement:
    return Measurement(math.inf, math.inf, difference=apart, error=error, code=code)
