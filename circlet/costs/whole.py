"""Whole networks on one backend: one run, divided among its operators where the backend tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from circlet.artifact.digest import digest
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Source, Template
from circlet.costs.model import Costs
from circlet.costs.rows import WITHIN, Row, Whole
from circlet.ir import Op
from circlet.ir.regions import reachable
from circlet.options import DEFAULT_BACKENDS, Options
from circlet.profiling.calls import TimedCall, planned_again, timed_calls
from circlet.profiling.profiler import random_inputs
from circlet.profiling.timing import time_session
from circlet.runtime.session import Session

_FEWEST_RUNS = 2
_ENOUGH_RUNS = 8  # from which on the time decides how many there are


@dataclass(frozen=True)
class Network:
    """The operators that are placed, as passes leave them, before any backend's own passes.

    Attributes:
        source: What they were read from.
        options: What it is read with.
        ops: The operators in order.
        keys: Their signature keys.
    """

    source: Source
    options: Options
    ops: tuple[Op, ...]
    keys: tuple[str, ...]

    @staticmethod
    def read(source: Source, costs: Costs, backends: Sequence[str]) -> Network:
        """The operators of a network that `reference`, or else one of the backends, takes.

        Raises:
            CircletError: As `circlet.compiler.planning.plan`.
        """
        names = tuple(dict.fromkeys(["reference", *backends]))
        options = costs.options._replace(backends=names, strict=False, backend_of=())
        planned = plan(Template.read(source, options), options)
        ops = tuple(row.op for row in planned.placed)
        return Network(source, options, ops, tuple(costs.signature(op).key for op in ops))

    @property
    def identity(self) -> str:
        """The same for equal operators in the same order."""
        return digest("\n".join(self.keys).encode()).hex()

    def preferring(self, backend: str) -> Options:
        """The options of a session that gives all it can to one backend."""
        names = tuple(dict.fromkeys([backend, *DEFAULT_BACKENDS, *self.options.backends]))
        return self.options._replace(backends=names)

    def planned(self, backend: str) -> PlannedModel:
        """The plan of that session; its placement table has a row for each operator, in order."""
        options = self.preferring(backend)
        return plan(Template.read(self.source, options), options)


def measure_whole(
    costs: Costs, network: Network, backend: str, threads: int, seconds: float
) -> Whole:
    """The time of a network that prefers a backend, kept with what it says of operators.

    Raises:
        CircletError: It cannot be compiled or run.
    """
    session = Session.of(network.source, network.preferring(backend), threads=threads)
    session, inputs = session.fitting(random_inputs(session))
    times = time_session(session, inputs, _runs(session, inputs, seconds), seconds)
    planned = planned_again(session)
    own = [row.backend == backend for row in planned.placed]
    members = Counter(key for key, is_own in zip(network.keys, own, strict=True) if is_own)
    plain = times.plain_ns / max(times.whole_ns, 1.0)  # timing itself takes time
    spent = [part.whole_ns * min(1.0, plain) for part in times.partitions]
    kept = [part.backend == backend for part in planned.partitions]
    between = max(0.0, times.plain_ns - sum(spent)) / max(len(spent), 1)
    whole = Whole(
        network.identity,
        sum(ns + between for ns, is_own in zip(spent, kept, strict=True) if is_own),
        times.plain_ns,
        min(times.plain_ns, times.range_ns[0] * plain),
        max(times.plain_ns, times.range_ns[1] * plain),
        sum(kept),
        tuple(sorted(members.items())),
    )
    costs.database.add_network(costs.context(backend, threads), whole)
    calls = list(timed_calls(session, planned, times.partitions))
    for name in {call.backend for call in calls}:
        rows = _scaled(_rows(costs, network, name, calls), min(1.0, plain))
        known = costs.known(name, threads).rows  # of others, as they run by themselves
        new = [row for row in rows if name == backend or row.signature.key not in known]
        costs.database.add_operators(costs.context(name, threads), new)
    return whole


def _runs(session: Session, inputs: Sequence[np.ndarray], seconds: float) -> int | None:
    """How many runs are timed: a few where each is long, else as many as fit into the time."""
    session.run(inputs)  # the first one binds buffers, and engines prepare themselves
    start = perf_counter()
    session.run(inputs)
    count = int(seconds / max(perf_counter() - start, 1e-9))
    return None if count >= _ENOUGH_RUNS else max(_FEWEST_RUNS, count)


@dataclass
class _Spent:
    """What was counted for one operator, in nanoseconds, and the bytes that it holds."""

    ns: float = 0.0
    low: float = 0.0
    high: float = 0.0
    held: float = 0.0


@dataclass
class Division:
    """Divides the times of calls among operators; those of branches go to what runs the branches.

    Those that a call computes share its time by their arithmetic, or by the bytes that they move
    where none of them computes.

    Attributes:
        weights: Arithmetic and bytes of each operator, by its place.
        sources: The places of the operators that descend from each source operator.
    """

    weights: Sequence[tuple[float, float]]
    sources: Mapping[int, Sequence[int]]
    spent: dict[int, _Spent] = field(default_factory=dict)

    def add(self, call: TimedCall) -> None:
        """Divide the time of a call; that of one which no operator stands for is left out."""
        numbers = [number for number, _ in call.work.sources]
        places = sorted({place for n in numbers for place in self.sources.get(n, ())})
        for place, share in zip(places, self._shares(places), strict=True):
            own = self.spent.setdefault(place, _Spent())
            own.ns += share * call.us * 1e3
            own.low += share * min(call.us, call.range_us[0]) * 1e3
            own.high += share * max(call.us, call.range_us[1]) * 1e3
            own.held += share * call.work.constant_bytes

    def _shares(self, places: Sequence[int]) -> list[float]:
        if not places:
            return []
        for column in (0, 1):
            whole = sum(self.weights[place][column] for place in places)
            if whole:
                return [self.weights[place][column] / whole for place in places]
        return [1 / len(places)] * len(places)


def _rows(costs: Costs, network: Network, backend: str, calls: Sequence[TimedCall]) -> list[Row]:
    """What operators took; nothing of those whose backend shows nothing of its partitions."""
    division = _division(costs, network)
    for call in calls:
        if call.backend == backend and call.work.kind != "PARTITION":
            division.add(call)
    found: dict[str, list[_Spent]] = {}
    for place, spent in division.spent.items():
        found.setdefault(network.keys[place], []).append(spent)
    signatures = {costs.signature(op).key: costs.signature(op) for op in network.ops}
    return [
        Row(
            signatures[key],
            WITHIN,
            sum(each.ns for each in own) / len(own),
            min(each.low for each in own),
            max(each.high for each in own),
            round(max(each.held for each in own)),
        )
        for key, own in found.items()
    ]


def _division(costs: Costs, network: Network) -> Division:
    sources: dict[int, list[int]] = {}
    for place, op in enumerate(network.ops):
        inner = [each for region in op.regions for graph in reachable(region) for each in graph.ops]
        for number in {source.id for each in (op, *inner) for source in each.origin.sources}:
            sources.setdefault(number, []).append(place)
    features = [costs.signature(op).features for op in network.ops]
    return Division([(f.computing, f.data_bytes + f.weight_bytes) for f in features], sources)


def _scaled(rows: Sequence[Row], scale: float) -> list[Row]:
    return [r._replace(ns=r.ns * scale, low=r.low * scale, high=r.high * scale) for r in rows]
