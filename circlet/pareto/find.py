"""From a model to the front of its placements: problems, search, measuring, and a last check.

The promise that no front is slower than the best single backend holds by construction: single
backends are measured like every other configuration, in the last check side by side with the front,
and a mix that is not faster there is beaten by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import numpy as np

from circlet.apart import Apart
from circlet.costs.model import open_costs
from circlet.costs.steps import Steps, carried_out
from circlet.costs.study import DEFAULT_EFFORT, Effort, measure
from circlet.costs.whole import Network
from circlet.errors import BackendError, InputError
from circlet.options import DEFAULT_OPTIONS, EXECUTORS, Options
from circlet.pareto.apart import Measuring
from circlet.pareto.build import Level, problems_of
from circlet.pareto.calibrate import calibrated
from circlet.pareto.evaluate import check_settings
from circlet.pareto.front import FrontPoint, ParetoFront, front_of, volume
from circlet.pareto.journal import Journal
from circlet.pareto.settings import DEFAULT_EVALUATION, EvaluationSettings
from circlet.placement.problem import Configuration, Measurement, Setting
from circlet.placement.search.drive import search
from circlet.placement.search.exact import USUAL_EFFORT
from circlet.placement.search.front import Point, reference_point
from circlet.placement.search.space import Genome, Space, model_front
from circlet.placement.search.strategies import check_strategy, strategy
from circlet.progress import Stage

MODES = ("online", "offline")
BY = ("operator", "kind")
_MOST_VERIFIED = 24
_CONFIRMED = 12
_TOLD = 3  # reasons

Evaluate = Callable[[bytes | Path, Configuration, EvaluationSettings], Measurement]


@dataclass(frozen=True)
class SearchRequest:
    """What is searched, and how.

    Attributes:
        model: The network.
        settings: How configurations are measured; its options hold the backends.
        threads, levels, executors: What settings are made of.
        search: A name of `circlet.placement.search.strategies.STRATEGIES`.
        evaluations: How many configurations are measured at most, single backends included.
        seed: Of everything that is drawn.
        mode: "online" measures what the strategy asks for; "offline" searches on the model, and
            measures the front that it finds.
        by: Whether each operator is placed by itself, or all of a kind together.
        journal: A file of what was measured already, and where it is kept; None for none.
        effort: How much time is spent on what operators cost.
    """

    model: bytes | Path
    settings: EvaluationSettings = DEFAULT_EVALUATION
    threads: tuple[int, ...] = (1,)
    levels: tuple[str, ...] = ("O2", "Os")
    executors: tuple[str, ...] = ("linear",)
    search: str = "auto"
    evaluations: int = 60
    seed: int = 0
    mode: str = "online"
    by: str = "operator"
    journal: Path | None = None
    effort: Effort = DEFAULT_EFFORT

    @property
    def choices(self) -> list[Setting]:
        """The settings that are searched."""
        return [
            Setting(threads, level, executor=executor)
            for level in self.levels
            for executor in self.executors
            for threads in self.threads
        ]


def find_front(request: SearchRequest, evaluator: Evaluate | None = None) -> ParetoFront:
    """Search, measure, and check what was found.

    Args:
        evaluator: What measures a configuration; by default a process of its own does, and checks
            the front at the end.

    Raises:
        InputError: The request is not one that can be carried out.
        BackendError: No configuration gives a right answer.
        CircletError: The network cannot be read, or no backend takes some of it.
    """
    _check(request)
    with Apart() as apart:
        space = space_of(request, apart)
        return _Search(request, space, evaluator or Measuring(apart)).front()


def _check(request: SearchRequest) -> None:
    check_settings(request.settings)
    check_strategy(request.search)
    for name, wanted in (("mode", MODES), ("by", BY)):
        if getattr(request, name) not in wanted:
            why, fix = repr(getattr(request, name)), f"choose {' or '.join(wanted)}"
            raise InputError("there is no such choice", where=name, why=why, fix=fix)
    for name in request.executors:
        if name not in EXECUTORS:
            fix = f"choose {', '.join(EXECUTORS)}"
            raise InputError("there is no such executor", where="executors", why=name, fix=fix)
    if (
        not request.executors
        or request.evaluations < 1
        or not request.threads
        or not request.levels
    ):
        fix = "allow one evaluation, one number of threads and one level at the least"
        raise InputError("there is nothing to search", where="evaluations", fix=fix)


def space_of(request: SearchRequest, apart: Apart) -> Space:
    """The search space of a request; what is not known of operators' costs is measured first.

    Args:
        apart: The process that backends are asked in and operators measured.

    Raises:
        CircletError: As `find_front`.
    """
    found: Space = carried_out(apart, _space, request, limit_s=request.effort.limit_s)
    return found


def _space(steps: Steps, request: SearchRequest) -> Space:
    options = request.settings.options
    levels: list[Level] = []
    with ExitStack() as opened:
        for name in dict.fromkeys(request.levels):
            costs = opened.enter_context(open_costs(options._replace(level=name), steps=steps))
            network = Network.read(request.model, costs, options.backends)
            measure(costs, network, options.backends, request.threads, request.effort)
            levels.append(Level(name, network.ops, costs))
        problems = problems_of(levels, options.backends, request.choices)
    return Space.of(problems, request.by)


def offline_front(space: Space) -> tuple[list[Genome], bool]:
    """The model's front, evenly thinned out to what is measured of it, and whether it is exact."""
    front, is_exact = model_front(space, USUAL_EFFORT)
    places = np.linspace(0, len(front) - 1, min(len(front), _MOST_VERIFIED)).round()
    return [front[int(place)] for place in np.unique(places)], is_exact


@dataclass
class _Search:
    """A search in progress."""

    request: SearchRequest
    space: Space
    evaluator: Evaluate
    measured: dict[Configuration, Measurement] = field(default_factory=dict)
    predicted: dict[Configuration, Point] = field(default_factory=dict)
    exact: bool | None = None
    journal: Journal | None = None
    stage: Stage | None = None

    def front(self) -> ParetoFront:
        """Search, then measure the front and the single backends side by side."""
        start = perf_counter()
        request = self.request
        if request.journal is not None:
            self.journal = Journal(request.journal, identity(request))
        self.stage = Stage("measuring", request.evaluations, "configurations")
        singles = self._singles()
        budget = max(0, request.evaluations - len(singles))
        self._measure(singles)
        known = {genome: self._point(genome) for genome in singles}
        self.space = calibrated(self.space, known)
        self._predict(singles)
        if request.mode == "offline":
            front, self.exact = offline_front(self.space)
            self._measure(front[:budget])
        else:
            steps = strategy(request.search, self.space, request.seed)
            search(self.space, steps, self._measure, budget, known)
            self.exact = self.space.likely_front[1] if request.search == "auto" else None
        self._confirm(singles)
        self._check_answers()
        return self._result(singles, perf_counter() - start)

    def _check_answers(self) -> None:
        """See that a configuration gave an answer; raises BackendError."""
        if any(found.is_valid for found in self.measured.values()):
            return
        raise BackendError(
            "no configuration of the network gives a right answer",
            where=", ".join(self.space.backends),
            why=list(dict.fromkeys(found.error for found in self.measured.values()))[:_TOLD],
            fix="try the backends one by one with circlet run --strict, or name others",
        )

    def _singles(self) -> list[Genome]:
        """Every backend by itself at each setting, as far as the budget reaches."""
        singles = self.space.single_backends()
        times = self.space.predicted(singles)[:, 0]
        fast = [singles[i] for i in np.argsort(times, kind="stable")]
        first = {genome[1:]: genome for genome in reversed(fast)}
        rest = [genome for genome in fast if genome not in first.values()]
        most = max(len(first), self.request.evaluations // 2)
        return [*first.values(), *rest][:most]

    def _point(self, genome: Genome) -> Point:
        return self.measured[self.space.configuration(genome)].point

    def _measure(self, genomes: Sequence[Genome]) -> list[Point]:
        """Time and memory of genomes; what the journal knows is not measured again."""
        request, found = self.request, []
        self._predict(genomes)
        for genome in genomes:
            configuration = self.space.configuration(genome)
            known = self.journal.known.get(configuration) if self.journal else None
            known = self.measured.get(configuration, known)
            if known is None:
                known = self.evaluator(request.model, configuration, request.settings)
                if self.journal is not None:
                    self.journal.add(configuration, known)
            self.measured[configuration] = known
            if self.stage is not None:
                self.stage.advance(1)
            found.append(known.point)
        return found

    def _predict(self, genomes: Sequence[Genome]) -> None:
        """Take down what the model says of genomes."""
        for genome, point in zip(genomes, self.space.predicted(genomes), strict=True):
            pair = float(point[0]), float(point[1])
            self.predicted[self.space.configuration(genome)] = pair

    def _confirm(self, singles: Sequence[Genome]) -> None:
        """Measure the front and the fastest singles again, side by side, and believe that."""
        points = [FrontPoint(c, m) for c, m in self.measured.items() if m.is_valid]
        front, _ = front_of(points)
        alone = [self.space.configuration(genome) for genome in singles]
        alone = [c for c in alone if self.measured[c].is_valid]
        alone.sort(key=lambda c: self.measured[c].time_ns)
        chosen = [point.configuration for point in front[:_CONFIRMED]]
        wanted = list(dict.fromkeys([*alone[: len(self.space.backends)], *chosen]))
        if len(wanted) < 2 or not isinstance(self.evaluator, Measuring):
            return
        settings = self.request.settings._replace(memory="planned")
        again = self.evaluator.together(self.request.model, wanted, settings)
        for configuration, new in zip(wanted, again, strict=True):
            old = self.measured[configuration]
            if new.is_valid:
                kept = {"memory_bytes": old.memory_bytes, "rss_bytes": old.rss_bytes}
                new = new._replace(**kept)
            self.measured[configuration] = new

    def _result(self, singles: Sequence[Genome], seconds: float) -> ParetoFront:
        names = self.space.backends
        alone = {self.space.configuration(g): names[self._backend_of(g)] for g in singles}
        points = [
            FrontPoint(c, m, self.predicted.get(c), alone.get(c, ""))
            for c, m in self.measured.items()
        ]
        front, others = front_of(points)
        valid = [point for point in points if point.measurement and point.measurement.is_valid]
        single = min((p for p in valid if p.single), key=lambda p: p.point[0], default=None)
        reference = reference_point(np.array([p.point for p in valid], float).reshape(-1, 2))
        predicted = [point._replace(measurement=None) for point in front]
        request = self.request
        name = request.model.name if isinstance(request.model, Path) else "a network"
        return ParetoFront(
            name,
            names,
            tuple(group.sources for group in self.space.problems[0].groups),
            tuple(front),
            tuple(others),
            single,
            request.search,
            request.seed,
            request.mode,
            self.space.size,
            len(self.measured),
            reference,
            volume(front, reference),
            volume(predicted, reference),
            self.exact,
            seconds,
        )

    def _backend_of(self, genome: Genome) -> int:
        """The backend that most genes of a single one have."""
        return int(np.bincount(np.array(genome[1:], np.int64)).argmax())


def identity(request: SearchRequest) -> dict[str, object]:
    """What measurements of a search have in common, as plain data."""
    model = request.model
    data = model.read_bytes() if isinstance(model, Path) else model
    settings = request.settings
    options: Options = settings.options
    base = {k: v for k, v in options._asdict().items() if k not in ("limits", "cache")}
    usual = DEFAULT_OPTIONS._asdict()
    return {
        "model": sha256(data).hexdigest(),
        "options": {k: v for k, v in base.items() if v != usual[k]},
        "memory": settings.memory,
        "rounds": settings.rounds,
    }
