"""What a report says: from a model that was read and planned, and times of a run if there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from circlet import __version__
from circlet.backends.detailed import KnowsDetails, PartitionDetails
from circlet.compiler.planning import PlannedModel
from circlet.errors import UnsupportedOp
from circlet.ir import Model
from circlet.options import DEFAULT_LEVEL, Options
from circlet.plan.partition import Partition
from circlet.profiling.result import OperatorRow
from circlet.report.data import (
    BlockItem,
    GraphItem,
    PartitionItem,
    PlaceItem,
    Report,
    Roof,
    StepItem,
    Timing,
)
from circlet.report.graphs import graph_item, source_graph, weights_bytes, with_facts


@dataclass(frozen=True)
class Measured:
    """What runs took.

    Attributes:
        operators_us: Of operators of the optimised graph, by their positions.
        steps_us: Of kernel calls, by partition and step.
        sources: Of source operators that something ran for, by their ids.
        roofs: What this machine can do at most.
    """

    timing: Timing
    operators_us: Mapping[int, float]
    steps_us: Mapping[tuple[int, int], float]
    sources: Mapping[int, OperatorRow]
    roofs: tuple[Roof, ...] = ()


@dataclass(frozen=True)
class Subject:
    """What a report is of: a name for it, the model as its file has it, and the machine."""

    title: str
    model: Model
    options: Options
    machine: str


def report_of_file(subject: Subject) -> Report:
    """The report of a model that is not planned."""
    options = subject.options
    return Report(
        title=subject.title,
        format=subject.model.source_format,
        circlet=__version__,
        machine=subject.machine,
        level=options.level or DEFAULT_LEVEL,
        backends=tuple(options.backends),
        source=source_graph(subject.model),
        weights_bytes=weights_bytes(subject.model),
    )


def with_refusals(report: Report, unsupported: Sequence[UnsupportedOp]) -> Report:
    """The report with the operators for which the model cannot be planned."""
    rows = tuple((entry.kind, entry.source, entry.reason) for entry in unsupported)
    return replace(report, unsupported=rows)


def with_plan(report: Report, planned: PlannedModel, measured: Measured | None = None) -> Report:
    """The report with the plan of its model, and times where it was run."""
    ops = [[op] for part in planned.partitions for op in part.ops]
    graph = graph_item(ops, planned.model.main, [()] * len(ops))
    tables = _Tables()
    firsts = first_positions(planned.partitions)
    details = [_details(planned, part) for part in planned.partitions]
    parts = [
        tables.partition(part, own, first, measured, number)
        for number, (part, own, first) in enumerate(
            zip(planned.partitions, details, firsts, strict=True)
        )
    ]
    facts = [
        fact
        for number, (part, own) in enumerate(zip(planned.partitions, details, strict=True))
        for fact in _facts(number, part, own)
    ]
    return replace(
        report,
        source=_timed_sources(report.source, measured),
        optimised=_timed(with_facts(graph, facts), measured),
        partitions=tuple(parts),
        placement=tuple(_places(planned)),
        codes=tuple(tables.codes),
        headers=tables.headers,
        roofs=measured.roofs if measured else (),
        timing=measured.timing if measured else None,
    )


def first_positions(parts: Sequence[Partition]) -> list[int]:
    """The position of each partition's first operator in the optimised graph."""
    counts = [len(part.ops) for part in parts]
    return [sum(counts[:number]) for number in range(len(counts))]


def _details(planned: PlannedModel, part: Partition) -> PartitionDetails | None:
    compiler = next(c for c in planned.compilers if c.name == part.backend)
    return compiler.details(part) if isinstance(compiler, KnowsDetails) else None


class _Tables:
    """C and headers of all partitions together."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.headers: dict[str, str] = {}

    def partition(
        self,
        part: Partition,
        details: PartitionDetails | None,
        first: int,
        measured: Measured | None,
        number: int,
    ) -> PartitionItem:
        """A partition whose operators are counted from `first` on; takes in its C."""
        if details is None:
            return PartitionItem(part.backend, len(part.ops))
        start = len(self.codes)
        self.codes += details.codes
        self.headers |= details.headers
        times = measured.steps_us if measured else {}
        steps = tuple(
            StepItem(
                first + step.op,
                step.kernel,
                step.tasks,
                step.code if step.code < 0 else start + step.code,
                times.get((number, position)),
            )
            for position, step in enumerate(details.steps)
        )
        return PartitionItem(
            part.backend,
            len(part.ops),
            steps,
            tuple(BlockItem(**vars(block)) for block in details.blocks),
            details.arena_bytes,
            details.lower_bound_bytes,
            details.constants_bytes,
            details.planner,
        )


def _facts(
    number: int, part: Partition, details: PartitionDetails | None
) -> Iterator[dict[str, object]]:
    """What is known of each operator of a partition besides its cost."""
    steps: list[list[int]] = [[] for _ in part.ops]
    alive: list[int] = []
    if details is not None:
        alive = _alive(details)
        for position, step in enumerate(details.steps):
            steps[step.op].append(position)
    for index, own in enumerate(steps):
        yield {
            "backend": part.backend,
            "partition": number,
            "lowering": details.lowerings[index] if details else "",
            "steps": tuple(own),
            "alive_bytes": max((alive[step] for step in own), default=None),
        }


def _alive(details: PartitionDetails) -> list[int]:
    """Bytes of the arena that are in use in each step."""
    changes = [0] * (len(details.steps) + 1)
    for block in details.blocks:
        changes[block.first] += block.size_bytes
        changes[block.last + 1] -= block.size_bytes
    return list(accumulate(changes))


def _timed(graph: GraphItem, measured: Measured | None) -> GraphItem:
    if measured is None:
        return graph
    times = (measured.operators_us.get(index) for index in range(len(graph.operators)))
    return with_facts(graph, ({"us": us} for us in times))


def _timed_sources(graph: GraphItem, measured: Measured | None) -> GraphItem:
    """The file's operators with their times.

    An operator that the file says descends from several has the times of all; where several
    descend from one, they share its time.
    """
    if measured is None:
        return graph
    carriers = Counter(source for op in graph.operators for source in op.sources)
    return with_facts(graph, [_own_facts(op.sources, measured, carriers) for op in graph.operators])


def _own_facts(
    sources: Sequence[int], measured: Measured, carriers: Mapping[int, int]
) -> dict[str, object]:
    rows = [measured.sources[source] for source in sources if source in measured.sources]
    if not rows:
        return {}
    longest = max(rows, key=lambda row: row.us)
    return {
        "us": sum(row.us / carriers[row.id] for row in rows),
        "roof": longest.roof,
        "bound": longest.bound,
        "reason": longest.why,
    }


def _places(planned: PlannedModel) -> Iterator[PlaceItem]:
    for row in planned.placed:
        sources = tuple(source.id for source in row.op.origin.sources)
        yield PlaceItem(row.op.label, row.op.name, row.backend, row.refused, sources)
