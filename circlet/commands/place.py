"""Where operators of a network run and what crosses between backends: `circlet place`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from circlet.apart import Apart
from circlet.backends.faults import Asked
from circlet.backends.memory import home_of
from circlet.backends.registry import find_backend
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.costs.steps import Steps, carried_out
from circlet.errors import InputError
from circlet.formats import load
from circlet.ir import Op
from circlet.options import DEFAULT_EXECUTOR, DEFAULT_OPTIONS, Options, shape_words
from circlet.pareto.find import SearchRequest, find_front
from circlet.pareto.front import FrontPoint, read_front
from circlet.placement.file import read_placement, rules_of, with_placement, write_placement
from circlet.placement.interface import Candidate, Reason, Supported
from circlet.placement.rule import Placed
from circlet.plan.transfers import Transfer, transfers

_ASKING_S = 300.0  # without an answer, nor the end of what follows the last one


@dataclass(frozen=True)
class PlaceRequest:
    """What to place, and how.

    Attributes:
        model: The model file.
        options: Backends, rules and all that shapes the plan.
        placement: A file of a placement to start from; its rules come after those of the options.
        output: Where to write the placement; None for nowhere.
        against: A file of a placement to compare with.
        front: A file of a front, from which a placement is taken.
        search: A search for a front, from which a placement is taken.
        best: Which point of the front, as `circlet.pareto.front.ParetoFront.best` reads it.
    """

    model: Path
    options: Options = DEFAULT_OPTIONS
    placement: Path | None = None
    output: Path | None = None
    against: Path | None = None
    front: Path | None = None
    search: SearchRequest | None = None
    best: str = "time"


@dataclass(frozen=True)
class Chosen:
    """A point of a front.

    Attributes:
        us, mib: Its time and memory as measured, or else as predicted.
        run: The options of `circlet run` for it, besides its placement.
    """

    us: float
    mib: float
    run: str


@dataclass(frozen=True)
class OperatorPlace:
    """One operator after optimisation: its source names, its backend, and why not another."""

    source: str
    kind: str
    backend: str
    refused: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Moved:
    """A source operator that two placements put on different backends; "" where one has none."""

    source: str
    before: str
    after: str


@dataclass(frozen=True)
class Placement:
    """Where a network runs.

    Attributes:
        operators: Every operator of the optimised network, in order.
        partitions: Backend and number of operators of each partition, in order.
        transfers: What crosses between backends, and what of the caller's is copied.
        moved: How it differs from the placement it was compared with.
        output: The file that was written, if any.
        chosen: The point of a front that it is from, if any.
    """

    model: str
    operators: tuple[OperatorPlace, ...]
    partitions: tuple[tuple[str, int], ...]
    transfers: tuple[Transfer, ...]
    moved: tuple[Moved, ...]
    output: str = ""
    chosen: Chosen | None = None

    @property
    def transfer_bytes(self) -> int:
        """The bytes of all transfers whose sizes are known."""
        return sum(transfer.bytes or 0 for transfer in self.transfers)

    @property
    def copied_bytes(self) -> int:
        """Those of them that are copied."""
        return sum(transfer.bytes or 0 for transfer in self.transfers if transfer.is_copied)


def place_network(request: PlaceRequest) -> Placement:
    """Place the operators of a network; nothing is compiled or run.

    Backends are asked in a process of its own: one that ends it takes not what it was asked for.

    Raises:
        InputError: A rule matches nothing, or a file holds no placement.
        CircletError: As `circlet.compiler.compile.compile_model`.
    """
    point = _point(request)
    with Apart() as apart:
        asked = replace(request, search=None)
        found: Placement = carried_out(apart, _placement, asked, point, limit_s=_ASKING_S)
    return found


@dataclass(frozen=True)
class _Watched:
    """A backend that takes no operator of which asking it ended the process before."""

    backend: Candidate
    steps: Steps

    @property
    def name(self) -> str:
        return self.backend.name

    def supports(self, op: Op) -> Supported | Reason:
        key = f"{op.label} {sorted(source.id for source in op.origin.sources)}"
        if self.steps.begins("asking", self.name, key):
            return Asked(self.backend).supports(op)
        return Reason(f"asking it ended the process: {self.steps.why_lost(self.name, key)}")


def _placement(steps: Steps, request: PlaceRequest, point: FrontPoint | None) -> Placement:
    options = with_placement(request.options, request.placement).of_session()
    if point is not None:
        rules = (*options.backend_of, *rules_of(point.configuration.placement))
        setting = point.configuration.setting
        options = options._replace(
            backend_of=rules, level=setting.level, executor=options.executor or setting.executor
        )
    model = load(request.model, options.limits)
    planned = plan(Template.of(model, options), options, asking=partial(_Watched, steps=steps))
    by_source = _by_source(planned.placed)
    against = read_placement(request.against) if request.against is not None else None
    if request.output is not None:
        write_placement(request.output, by_source)
    return Placement(
        str(request.model),
        tuple(OperatorPlace(r.op.name, r.op.label, r.backend, r.refused) for r in planned.placed),
        tuple((part.backend, len(part.ops)) for part in planned.partitions),
        tuple(_transfers(planned)),
        () if against is None else tuple(_moved(against, by_source)),
        "" if request.output is None else str(request.output),
        None if point is None else _chosen(point, options),
    )


def _point(request: PlaceRequest) -> FrontPoint | None:
    """The point of a front that the request is for, if any."""
    given = [
        name for name in ("placement", "front", "search") if getattr(request, name) is not None
    ]
    if len(given) > 1:
        where = ", ".join(f"--{name}" for name in given)
        raise InputError("a placement comes from one place", where=where, fix="give one of them")
    if request.front is not None:
        return read_front(request.front).best(request.best)
    return None if request.search is None else find_front(request.search).best(request.best)


def _chosen(point: FrontPoint, options: Options) -> Chosen:
    time, memory = point.point
    setting = point.configuration.setting
    words = ["--threads", str(setting.threads), "-O", setting.level]
    if setting.executor != DEFAULT_EXECUTOR:
        words += ["--executor", setting.executor]
    run = shlex.join([*words, *shape_words(options.shapes)])
    return Chosen(time / 1e3, memory / 2**20, run)


def _by_source(placed: Sequence[Placed]) -> dict[str, str]:
    return {source.name: row.backend for row in placed for source in row.op.origin.sources}


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Moved]:
    for source in dict.fromkeys([*before, *after]):
        pair = before.get(source, ""), after.get(source, "")
        if pair[0] != pair[1]:
            yield Moved(source, *pair)


def _transfers(planned: PlannedModel) -> Iterator[Transfer]:
    names = {part.backend for part in planned.partitions}
    homes = {name: home_of(find_backend(name).describe()) for name in names}
    return transfers(planned.model.main, planned.partitions, homes)
