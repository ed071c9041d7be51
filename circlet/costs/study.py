"""Measures what is missing of a network on some backends, and compares it with predictions."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from circlet.costs.alone import BATCH, Loaded, graph_of, load_all, unmeasurable
from circlet.costs.borders import measure_border, measure_transfers
from circlet.costs.estimate import Estimate
from circlet.costs.model import Costs
from circlet.costs.rows import ALONE, Row
from circlet.costs.timing import DEFAULT_METER, Meter
from circlet.costs.whole import Network, measure_whole
from circlet.errors import BackendError, CircletError, InputError, PlacementError
from circlet.ir import Op, Tensor
from circlet.progress import Stage
from circlet.target.targets import native_target, parse_targets

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Effort:
    """How much time measuring takes.

    Attributes:
        meter: How single operators are timed.
        seconds: For the runs of each whole network.
        again: Whether what is known is measured anew.
        limit_s: How long nothing may be heard of a backend, in seconds, where it is in a process
            that can be ended.
    """

    meter: Meter = DEFAULT_METER
    seconds: float = 0.5
    again: bool = False
    limit_s: float = 300.0


DEFAULT_EFFORT = Effort()


def measure(
    costs: Costs,
    network: Network,
    backends: Sequence[str],
    threads: Sequence[int],
    effort: Effort = DEFAULT_EFFORT,
) -> None:
    """Measure what is not known yet of a network, and keep it.

    For each backend and number of threads: what a partition costs, the whole network, and each
    operator that the backend takes and that the whole network said nothing of; then transfers
    between each two backends. What fails is logged and left out.

    Raises:
        InputError: The target is another machine, or there is no such backend.
    """
    if parse_targets(costs.options.target) != (native_target(),):
        fix = "measure on the machine itself, for the target native"
        raise InputError("costs are measured on this machine only", where="target", fix=fix)
    if effort.again:
        for backend in backends:
            _measure_border(costs, backend, effort.meter)
    stage = Stage("measuring", len(backends) * len(threads), "backends and threads")
    for backend in backends:
        for count in threads:
            stage.note(f"{backend}, {count}")
            _measure_backend(costs, network, backend, count, effort)
            stage.advance(1)
    pairs = [
        (writer, reader)
        for writer, reader in permutations(backends, 2)
        if effort.again
        or not costs.database.transfers(costs.context(writer, 1), costs.context(reader, 1))
    ]
    measure_transfers(costs, pairs, effort.meter)
    costs.changed()


def _measure_border(costs: Costs, backend: str, meter: Meter) -> None:
    if costs.steps.begins("border", backend):
        measure_border(costs, backend, meter)


def _measure_backend(
    costs: Costs, network: Network, backend: str, threads: int, effort: Effort
) -> None:
    if not costs.known(backend, threads).has_border:
        _measure_border(costs, backend, effort.meter)
        costs.changed()
    known = {whole.network for whole in costs.known(backend, threads).wholes}
    is_wanted = effort.again or network.identity not in known
    if is_wanted and costs.steps.begins("network", backend, str(threads), network.identity):
        try:
            measure_whole(costs, network, backend, threads, effort.seconds)
        except CircletError as error:
            LOGGER.warning("%s does not run the whole network: %s", backend, error)
    costs.changed()
    rows = costs.known(backend, threads).rows
    first = {costs.signature(op).key: op for op in reversed(network.ops)}
    wanted = [
        op
        for key, op in first.items()
        if (key not in rows or (effort.again and rows[key].way == ALONE))
        and not unmeasurable(op)
        and not costs.refusal(op, backend)
    ]
    measure_alone(costs, wanted, backend, threads, effort.meter)
    costs.changed()


def measure_alone(
    costs: Costs, ops: Sequence[Op], backend: str, threads: int, meter: Meter
) -> list[Row]:
    """Measure operators as networks of their own, and keep what they took; what fails is logged."""
    rows: list[Row] = []
    stage = Stage(f"measuring on {backend}", len(ops), "operators")
    for first in range(0, len(ops), BATCH):
        batch = ops[first : first + BATCH]
        for part in _attempts(costs, batch, backend, threads):
            new = _measure_batch(costs, part, backend, threads, meter, stage)
            costs.database.add_operators(costs.context(backend, threads), new)
            rows += new
    return rows


def _attempts(
    costs: Costs, batch: Sequence[Op], backend: str, threads: int
) -> Iterator[Sequence[Op]]:
    """A batch as a whole, or, where it ended a process, its operators one by one."""
    keys = [costs.signature(op).key for op in batch]
    if len(batch) > 1 and costs.steps.begins("operators", backend, str(threads), " ".join(keys)):
        yield batch
        return
    for op, key in zip(batch, keys, strict=True):
        if costs.steps.begins("operator", backend, str(threads), key):
            yield [op]


def _measure_batch(
    costs: Costs, ops: Sequence[Op], backend: str, threads: int, meter: Meter, stage: Stage
) -> list[Row]:
    rows = []
    loaded = load_all([graph_of(op) for op in ops], backend, costs.options)
    for op, found in zip(ops, loaded, strict=True):
        stage.advance(1)
        try:
            if not isinstance(found, Loaded):
                raise found
            timing = meter.time(found.bound(threads).runner.run)
        except CircletError as error:
            LOGGER.warning("%s does not run %s alone: %s", backend, op.name, error.what)
            continue
        held = found.held_bytes + threads * found.scratch_bytes
        rows.append(Row(costs.signature(op), ALONE, *timing, held))
    return rows


@dataclass(frozen=True)
class Comparison:
    """A whole network that prefers one backend: as predicted, and as measured.

    Attributes:
        partitions: How many partitions run in turn.
        predicted: The sum of operators, partitions and transfers.
        measured: A run's time; None where it was not measured.
    """

    backend: str
    threads: int
    partitions: int
    predicted: Estimate
    measured: Estimate | None


def compare(costs: Costs, network: Network, backend: str, threads: int) -> Comparison:
    """The time of a network that prefers a backend, predicted and measured.

    Raises:
        CircletError: It cannot be planned, or nothing is known of a backend that it needs.
    """
    if not costs.steps.begins("planning", backend, network.identity):
        what, why = "a backend cannot be asked", "the process that asked it ended"
        raise BackendError(what, where=backend, why=why)
    planned = network.planned(backend)
    placed = [row.backend for row in planned.placed]
    pairs = zip(network.ops, placed, strict=True)
    parts = [_estimate(costs, op, name, threads) for op, name in pairs]
    total = sum(each.ns for each in parts)
    total += sum(costs.partition_ns(part.backend) for part in planned.partitions)
    total += sum(_transfers(costs, network.ops, placed))
    low = math.hypot(*(each.ns - each.low for each in parts))
    high = math.hypot(*(each.high - each.ns for each in parts))
    wholes = {w.network: w for w in costs.known(backend, threads).wholes}
    whole = wholes.get(network.identity)
    measured = whole and Estimate(whole.total_ns, whole.low, whole.high, measured=True)
    predicted = Estimate(total, max(0.0, total - low), total + high)
    return Comparison(backend, threads, len(planned.partitions), predicted, measured)


def _estimate(costs: Costs, op: Op, backend: str, threads: int) -> Estimate:
    """The time of an op where it was placed; a whole network may run what was never alone."""
    try:
        return costs.operator_ns(op, backend, threads)
    except PlacementError:
        found = costs.known(backend, threads).predicted(costs.signature(op))
        if found is None:
            raise
        return found


def _transfers(costs: Costs, ops: Sequence[Op], placed: Sequence[str]) -> list[float]:
    """The costs of values that go to other backends, once for each that reads them."""
    writers: dict[Tensor, str] = {}
    crossing: dict[tuple[Tensor, str], float] = {}
    for op, backend in zip(ops, placed, strict=True):
        for tensor in op.inputs:
            if tensor is not None and writers.get(tensor, backend) != backend:
                size, writer = tensor.size_bytes, writers[tensor]
                crossing[tensor, backend] = costs.transfer_ns(size, writer, backend)
        writers.update(dict.fromkeys(op.outputs, backend))
    return list(crossing.values())
