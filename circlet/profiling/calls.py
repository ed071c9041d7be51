"""The kernel calls of a session's plan, each with the work that it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from circlet.backends.base import PartitionCompiler
from circlet.backends.profiled import KnowsWork, Work
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.errors import BackendError, InputError
from circlet.ir import Op
from circlet.ir.regions import reachable
from circlet.ops.opdef import cost_of, moves_bytes
from circlet.plan.partition import Partition
from circlet.profiling.timing import Part, PartitionTimes
from circlet.runtime.session import Session

NUMPY = "numpy"


@dataclass(frozen=True)
class TimedCall:
    """A kernel call, or an operator that a backend told of.

    Attributes:
        partition, step: Its place in the plan.
        backend: Where it ran.
        range_us: The least and the most of the runs that count.
        busy_us: What each thread worked on it; nothing on one thread, or where it is not told.
    """

    partition: int
    step: int
    backend: str
    work: Work
    us: float
    range_us: tuple[float, float]
    busy_us: tuple[float, ...] = ()


def planned_again(session: Session) -> PlannedModel:
    """The session's plan with its operators, which compiled code does not tell.

    Raises:
        InputError: The session runs an artifact, which holds no operators.
        BackendError: The plan is not the one that is loaded.
    """
    source, options = session.source, session.options
    if source is None:
        raise InputError(
            "an artifact cannot be profiled",
            why="it holds code, and nothing of the operators that the code descends from",
            fix="profile the model that it was compiled from",
        )
    planned = plan(Template.read(source, options), options)
    known = [(part["backend"], part["ops"]) for part in session.opened.metadata["partitions"]]
    made = [(part.backend, [[op.label, op.name] for op in part.ops]) for part in planned.partitions]
    if [(backend, [list(op) for op in ops]) for backend, ops in known] != made:
        raise BackendError(
            "the plan that is loaded is not the one that is made now",
            why="operators were placed otherwise when the network was compiled",
            fix="profile it without the cache (--no-cache)",
        )
    return planned


def timed_calls(
    session: Session, planned: PlannedModel, times: tuple[PartitionTimes, ...]
) -> Iterator[TimedCall]:
    """All calls in the order of the run."""
    compilers = {compiler.name: compiler for compiler in planned.compilers}
    facts = session.opened.metadata["partitions"]
    rows = zip(planned.partitions, facts, times, strict=True)
    for number, (part, entry, spent) in enumerate(rows):
        if spent.step_ns:
            yield from _steps(number, part, entry, spent, compilers[part.backend])
        elif spent.parts:
            yield from _parts(number, part, spent)
        else:
            yield _whole(number, part, spent)


def _steps(
    number: int,
    part: Partition,
    facts: Mapping[str, Any],
    spent: PartitionTimes,
    compiler: PartitionCompiler,
) -> Iterator[TimedCall]:
    """The calls of a plan; the time of its jumps lies between kernels."""
    us = [ns / 1e3 for ns in spent.step_ns]
    if not isinstance(compiler, KnowsWork):
        yield _whole(number, part, spent)
        return
    steps = [(int(op), str(kernel)) for op, kernel in facts["steps"]]
    for step, work in enumerate(compiler.works(part, steps, us)):
        if work is not None:
            least, most = (ns / 1e3 for ns in spent.range_ns[step])
            busy = tuple(ns / 1e3 for ns in spent.busy_ns[step]) if spent.busy_ns else ()
            yield TimedCall(number, step, part.backend, work, us[step], (least, most), busy)


def _parts(number: int, part: Partition, spent: PartitionTimes) -> Iterator[TimedCall]:
    ops = {(op.label, op.name): op for graph in reachable(part.graph()) for op in graph.ops}
    for step, told in enumerate(spent.parts):
        op = ops.get((told.kind, told.name))
        work = _told(told, part) if op is None else _op_work(op, op in part.ops)
        least, most = told.range_ns
        yield TimedCall(number, step, part.backend, work, told.ns / 1e3, (least / 1e3, most / 1e3))


def _op_work(op: Op, runs_once: bool) -> Work:
    cost = cost_of(op)
    constants = sum(t.data.nbytes for t in op.inputs if t is not None and t.data is not None)
    return Work(
        kernel=NUMPY,
        kind=op.label,
        sources=_sources(op),
        tasks=1,
        macs=cost.computing if runs_once else 0,
        outputs=sum(t.elements for t in op.outputs),
        data_bytes=max(0, moves_bytes(op).bytes - constants),
        constant_bytes=constants,
        unit="fp32",
    )


def _told(told: Part, part: Partition) -> Work:
    """The work of what only a name is known of."""
    named = {source for op in part.ops if op.name == told.name for source in _sources(op)}
    sources = tuple(sorted(named)) or _all_sources(part)
    return Work(part.backend, told.kind, sources, 1, 0, 0, 0, 0, "fp32")


def _whole(number: int, part: Partition, spent: PartitionTimes) -> TimedCall:
    """A partition of a backend that shows nothing of what it runs."""
    work = Work(part.backend, "PARTITION", _all_sources(part), 1, 0, 0, 0, 0, "fp32")
    us = spent.whole_ns / 1e3
    return TimedCall(number, 0, part.backend, work, us, (us, us))


def _sources(op: Op) -> tuple[tuple[int, str], ...]:
    return tuple((source.id, source.name) for source in op.origin.sources)


def _all_sources(part: Partition) -> tuple[tuple[int, str], ...]:
    return tuple(sorted({source for op in part.ops for source in _sources(op)}))
