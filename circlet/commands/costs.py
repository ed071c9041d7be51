"""What operators cost on each backend: `circlet costs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.apart import Apart
from circlet.backends.registry import backend_names, find_backend
from circlet.comparison.load import Moment, reason
from circlet.costs.check import Misses, without_network, without_operator
from circlet.costs.estimate import Estimate
from circlet.costs.exchange import exported, import_times
from circlet.costs.exec_time import ExecTime
from circlet.costs.machine import machine_facts, machine_fingerprint
from circlet.costs.model import Costs, open_costs
from circlet.costs.steps import Steps, carried_out
from circlet.costs.study import DEFAULT_EFFORT, Effort, compare, measure
from circlet.costs.whole import Network
from circlet.errors import CircletError, InputError, PlacementError
from circlet.formats.paths import check_apart
from circlet.ir import Op
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.regular_files import check_replaceable


@dataclass(frozen=True)
class CostsRequest:
    """What is to be measured and told.

    Attributes:
        models: Model files.
        options: Level, precision, and the backends, none for all native ones that work here.
        threads: Numbers of threads.
        seconds: For the runs of each whole network.
        again: Whether what is known is measured anew.
        check: Whether to tell how far predictions miss.
        exported: Where to write an exec_time.json.
        imported: One to read.
        forget: Whether all that is known of this machine is deleted first.
    """

    models: tuple[Path, ...] = ()
    options: Options = DEFAULT_OPTIONS
    threads: tuple[int, ...] = (1,)
    seconds: float = 0.5
    again: bool = False
    check: bool = False
    exported: Path | None = None
    imported: Path | None = None
    forget: bool = False


@dataclass(frozen=True)
class OperatorCost:
    """An operator on one backend.

    Attributes:
        source, kind: Its names in the file, and its kind.
        us, low_us, high_us: Its time, and the interval of nine in ten; None where it is refused.
        measured: Whether it was measured, rather than predicted.
        share: Its part of the sum of all operators on this backend.
        bytes: What it holds in memory beyond activations.
        refused: Why the backend does not take it, or "".
    """

    source: str
    kind: str
    backend: str
    threads: int
    us: float | None
    low_us: float | None
    high_us: float | None
    measured: bool
    share: float
    bytes: int
    refused: str = ""


@dataclass(frozen=True)
class WholeCost:
    """A network that prefers a backend, in microseconds, with intervals.

    Attributes:
        partitions: How many partitions run in turn.
        predicted_us: None where nothing is known of a backend that it needs; `why` says which.
        measured_us: None where it was not measured.
    """

    backend: str
    threads: int
    partitions: int
    predicted_us: tuple[float, float, float] | None
    measured_us: tuple[float, float, float] | None
    why: str = ""


@dataclass(frozen=True)
class NetworkCosts:
    """One network on all backends that were asked for."""

    model: str
    operators: tuple[OperatorCost, ...]
    wholes: tuple[WholeCost, ...]


@dataclass(frozen=True)
class PartitionCost:
    """What a partition of a backend costs beside its operators.

    Attributes:
        ns, ns_per_byte: As measured: at the least, and for each byte that goes in or out.
        factor: By what operators take in networks of what they take alone.
    """

    backend: str
    threads: int
    ns: float
    ns_per_byte: float
    factor: float


@dataclass(frozen=True)
class TransferCost:
    """What a change of backend costs: at the least, and for each byte."""

    writer: str
    reader: str
    ns: float
    ns_per_byte: float


@dataclass(frozen=True)
class CostsReport:
    """What was measured.

    Attributes:
        database: Where it is kept.
        machine: What it was measured on.
        forgotten: How many contexts were deleted; None where nothing was to be.
        imported: How many times another tool's file gave; None where there was none.
        skipped: Backends of that file that are not installed.
        exported: The file that was written, or "".
        others: Cores that other processes used meanwhile; None where the system does not tell.
        warning: Why the times that were measured now are not to be trusted, or "".
    """

    database: str
    machine: dict[str, object]
    networks: tuple[NetworkCosts, ...] = ()
    partitions: tuple[PartitionCost, ...] = ()
    transfers: tuple[TransferCost, ...] = ()
    misses: tuple[Misses, ...] = ()
    forgotten: int | None = None
    imported: int | None = None
    skipped: tuple[str, ...] = ()
    exported: str = ""
    others: float | None = None
    warning: str = ""


def costs_of(request: CostsRequest) -> CostsReport:
    """Measure what is missing, and tell all of it.

    Raises:
        InputError: Nothing was asked for; or there is no such backend.
        CircletError: A network cannot be read, or a file not written.
    """
    _check(request)
    forgotten = _forgotten() if request.forget else None
    with Apart() as apart:
        limit_s = DEFAULT_EFFORT.limit_s
        found: CostsReport = carried_out(apart, _measured, request, forgotten, limit_s=limit_s)
    return found


def _forgotten() -> int:
    """How many contexts of this machine were deleted."""
    with open_costs() as costs:
        return costs.database.forget(machine_fingerprint())


def _measured(steps: Steps, request: CostsRequest, forgotten: int | None) -> CostsReport:
    backends = request.options.backends or _working_backends(steps)
    options = request.options._replace(backends=backends)
    with open_costs(options, steps=steps) as costs:
        return replace(_report(request, costs, backends), forgotten=forgotten)


def _check(request: CostsRequest) -> None:
    others = request.exported, request.imported, request.forget or None
    if not request.models and not any(others):
        fix = "name a model, or --import, --export or --forget"
        raise InputError("nothing is asked for", where="circlet costs", fix=fix)
    if request.check and not request.models:
        fix = "name the networks whose operators are predicted from the others"
        raise InputError("there is nothing to check", where="--check", fix=fix)
    if request.options.shapes and not request.models:
        fix = "name the networks whose inputs have these sizes"
        raise InputError("there is nothing to give sizes to", where="--shape", fix=fix)
    if request.exported is not None:
        check_replaceable(request.exported, "the times of operators")
        check_apart(request.exported, list(request.models))


def _working_backends(steps: Steps) -> tuple[str, ...]:
    """All native backends that work on this machine."""
    found = []
    for name in filter(lambda name: steps.begins("trying", name), backend_names()):
        with suppress(CircletError):
            backend = find_backend(name)
            if backend.describe().is_native:
                backend.diagnose()
                found.append(name)
    return tuple(found)


def _report(request: CostsRequest, costs: Costs, backends: Sequence[str]) -> CostsReport:
    imported: int | None = None
    skipped: tuple[str, ...] = ()
    if request.imported is not None:
        times = ExecTime.read(request.imported)
        imported, skipped = import_times(costs, times, request.threads[0])
    networks = [Network.read(path, costs, backends) for path in request.models]
    effort = Effort(seconds=request.seconds, again=request.again)
    begin = _moment()
    for network in networks:
        measure(costs, network, backends, request.threads, effort)
    end = _moment()
    others = begin.others_until(end) if begin and end and networks else None
    if request.exported is not None:
        exported(costs, backends, request.threads[0]).write(request.exported)
    is_asked = bool(networks)
    return CostsReport(
        costs.database.path,
        dict(machine_facts()),
        tuple(_network(costs, network, backends, request.threads) for network in networks),
        tuple(_partitions(costs, backends, request.threads)) if is_asked else (),
        tuple(_transfers(costs, backends)) if is_asked else (),
        tuple(_misses(costs, networks, backends, request.threads)) if request.check else (),
        imported=imported,
        skipped=skipped,
        exported=str(request.exported or ""),
        others=others,
        warning="" if others is None else reason({"others_during": round(others, 2)}),
    )


def _moment() -> Moment | None:
    """The CPU time of all processes so far, where the system tells it."""
    try:
        return Moment.now()
    except OSError:
        return None


def _network(
    costs: Costs, network: Network, backends: Sequence[str], threads: Sequence[int]
) -> NetworkCosts:
    pairs = [(backend, count) for backend in backends for count in threads]
    operators = [row for pair in pairs for row in _operators(costs, network, *pair)]
    wholes = [_whole(costs, network, *pair) for pair in pairs]
    return NetworkCosts(str(network.source), tuple(operators), tuple(wholes))


def _operators(
    costs: Costs, network: Network, backend: str, threads: int
) -> Iterator[OperatorCost]:
    rows = [_operator(costs, op, backend, threads) for op in network.ops]
    whole = sum(row.us or 0.0 for row in rows) or 1.0
    for row in rows:
        fields = {**vars(row), "share": (row.us or 0.0) / whole}
        yield OperatorCost(**fields)


def _operator(costs: Costs, op: Op, backend: str, threads: int) -> OperatorCost:
    head = op.name, op.label, backend, threads
    try:
        found = costs.operator_ns(op, backend, threads)
    except PlacementError:
        why = costs.refusal(op, backend)
        return OperatorCost(*head, None, None, None, measured=False, share=0, bytes=0, refused=why)
    except InputError as error:  # nothing was measured: even the cheapest operator failed
        why = error.why
        return OperatorCost(*head, None, None, None, measured=False, share=0, bytes=0, refused=why)
    times = (found.ns / 1e3, found.low / 1e3, found.high / 1e3)
    held = costs.operator_bytes(op, backend, threads)
    return OperatorCost(*head, *times, measured=found.measured, share=0, bytes=held)


def _whole(costs: Costs, network: Network, backend: str, threads: int) -> WholeCost:
    try:
        found = compare(costs, network, backend, threads)
    except CircletError as error:
        return WholeCost(backend, threads, 0, None, None, f"{error.what}: {error.where}")
    times = _us(found.predicted), _us(found.measured)
    return WholeCost(backend, threads, found.partitions, *times)


def _us(found: Estimate | None) -> tuple[float, float, float] | None:
    return None if found is None else (found.ns / 1e3, found.low / 1e3, found.high / 1e3)


def _partitions(
    costs: Costs, backends: Sequence[str], threads: Sequence[int]
) -> Iterator[PartitionCost]:
    for backend in backends:
        for count in threads:
            known = costs.known(backend, count)
            factor, ns = known.calibration
            yield PartitionCost(backend, count, ns, known.border.ns_per_byte, factor)


def _transfers(costs: Costs, backends: Sequence[str]) -> Iterator[TransferCost]:
    for writer in backends:
        for reader in backends:
            if writer != reader:
                yield TransferCost(writer, reader, *costs.transfer_line(writer, reader))


def _misses(
    costs: Costs, networks: Sequence[Network], backends: Sequence[str], threads: Sequence[int]
) -> Iterator[Misses]:
    signatures = [[costs.signature(op) for op in network.ops] for network in networks]
    for backend in backends:
        for count in threads:
            known = costs.known(backend, count)
            yield from without_operator(known, backend, count)
            if len(networks) > 1:
                yield from without_network(known, signatures, backend, count)
