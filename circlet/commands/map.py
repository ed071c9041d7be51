"""What `circlet map` does, as a function: from source operators to kernel calls and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.backends.profiled import ShowsPlan
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.formats import load
from circlet.formats.origin_json import origins_of, read_origins_json, set_origins
from circlet.ir import Graph, Model, Op, SourceOp, Tensor
from circlet.ir.naming import source_names
from circlet.ir.regions import reachable
from circlet.ops import find
from circlet.ops.opdef import is_pure
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.plan.partition import Partition

UNREAD = "nothing that reaches an output reads its results"
CONSTANT = "computed once, when the network is compiled"
MERGED = "no work of its own is left"


@dataclass(frozen=True)
class MapRequest:
    """What `circlet map` is asked for.

    Attributes:
        model: The network.
        origins: A file of JSON that says the origins of its operators; else what it says itself.
        find: Only operators in whose names, or kinds, this text is; all where it is empty.
    """

    model: Path
    options: Options = DEFAULT_OPTIONS
    origins: Path | None = None
    find: str = ""


@dataclass(frozen=True)
class SourceRow:
    """An operator of the user's file.

    Attributes:
        name: As no other source operator is called.
        kinds: The kinds of what it was read as; none where the file has only what it became.
        operators: Numbers of the operators that do its work.
        why_none: Where there are none.
    """

    id: int
    name: str
    kinds: tuple[str, ...]
    operators: tuple[int, ...]
    why_none: str = ""


@dataclass(frozen=True)
class OperatorRow:
    """An operator that runs.

    Attributes:
        number: Its place in the order of execution.
        kind, name: Its kind, and its first result.
        sources: Names of the source operators whose work it does, those of graphs that it runs
            included.
        partition, backend: What runs it.
        calls: Kernels in the order in which they are called; none for a view, and where a backend
            does not tell.
        refused: Backends before this one that did not take it, and why.
    """

    number: int
    kind: str
    name: str
    sources: tuple[str, ...]
    partition: int
    backend: str
    calls: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MapReport:
    """The way in both directions.

    Attributes:
        sources: The operators of the user's file, in its order.
        operators: What runs, in the order of execution.
        origins: The source operators of each operator of the file as it is, by names: more than
            one where it was optimised before.
    """

    model: str
    level: str
    sources: tuple[SourceRow, ...]
    operators: tuple[OperatorRow, ...]
    origins: dict[str, list[str]]


def map_model(request: MapRequest) -> MapReport:
    """Say what becomes of each operator of a network, without compiling or running it.

    Raises:
        CircletError: As `circlet.compiler.compile.compile_model`; and as `read_origins_json`.
    """
    model = _read(request)
    options = request.options
    origins, known = origins_of(model), _source_ops(model)
    names, gone = source_names(_ops(model.graphs)), _why_gone(model)
    planned = plan(Template.of(model, options), options)
    rows = tuple(_operators(planned, names))
    users: dict[str, list[int]] = {}
    for row in rows:
        for source in row.sources:
            users.setdefault(source, []).append(row.number)
    sources = tuple(
        SourceRow(
            source.id,
            names[source],
            kinds,
            tuple(users.get(names[source], ())),
            "" if names[source] in users else gone.get(source, MERGED),
        )
        for source, kinds in known.items()
    )
    found = MapReport(str(request.model), planned.job.level, sources, rows, origins)
    return _only(found, request.find) if request.find else found


def _read(request: MapRequest) -> Model:
    model = load(request.model, request.options.limits)
    if request.origins is not None:
        set_origins(model, read_origins_json(request.origins, request.options.limits))
    return model


def _ops(graphs: Sequence[Graph]) -> list[Op]:
    return [op for graph in graphs for op in graph.ops]


def _source_ops(model: Model) -> dict[SourceOp, tuple[str, ...]]:
    """The source operators by id, with the kinds of the operators that descend from one alone."""
    kinds: dict[SourceOp, list[str]] = {}
    for op in _ops(model.graphs):
        for source in op.origin.sources:
            own = kinds.setdefault(source, [])
            if len(op.origin.sources) == 1:
                own.append(op.label)
    return {source: tuple(kinds[source]) for source in sorted(kinds)}


def _why_gone(model: Model) -> dict[SourceOp, str]:
    """Why source operators may have no operator: their results are constant, or not read."""
    found: dict[SourceOp, str] = {}
    for graph in model.graphs:
        read, constant = _read_ops(graph), _constant_ops(graph)
        for op in graph.ops:
            why = CONSTANT if op in constant else "" if op in read else UNREAD
            for source in op.origin.sources:
                if why and find(op.label) is not None:
                    found.setdefault(source, why)
    return found


def _constant_ops(graph: Graph) -> set[Op]:
    """Ops whose results are the same in every run at fixed sizes."""
    known: set[Tensor] = set()
    ops: set[Op] = set()
    for op in graph.ops:
        given = [t for t in op.inputs if t is not None]
        is_known = all(t.is_constant or t in known for t in given)
        if op.kind == "SHAPE" or (given and is_known and find(op.label) and is_pure(op)):
            known.update(op.outputs)
            ops.add(op)
    return ops


def _read_ops(graph: Graph) -> set[Op]:
    """Ops on whose results an output depends, and those without results."""
    wanted, ops = set(graph.outputs), set[Op]()
    for op in reversed(graph.ops):
        if not op.outputs or any(tensor in wanted for tensor in op.outputs):
            ops.add(op)
            wanted.update(t for t in op.inputs if t is not None)
    return ops


def _operators(planned: PlannedModel, names: dict[SourceOp, str]) -> Iterator[OperatorRow]:
    refused = {row.op: row.refused for row in planned.placed}
    by_name = {compiler.name: compiler for compiler in planned.compilers}
    number = 0
    for place, part in enumerate(planned.partitions):
        compiler = by_name[part.backend]
        calls = _calls(part, compiler if isinstance(compiler, ShowsPlan) else None)
        for op, own in zip(part.ops, calls, strict=True):
            yield OperatorRow(
                number,
                op.label,
                op.outputs[0].name if op.outputs else "",
                tuple(_sources(op, names)),
                place,
                part.backend,
                own,
                refused.get(op, ()),
            )
            number += 1


def _calls(part: Partition, compiler: ShowsPlan | None) -> list[tuple[str, ...]]:
    """The kernels of each op of a partition."""
    found: list[list[str]] = [[] for _ in part.ops]
    for step in () if compiler is None else compiler.linear_plan(part).steps:
        found[step.op].append(step.kernel)
    return [tuple(kernels) for kernels in found]


def _sources(op: Op, names: dict[SourceOp, str]) -> dict[str, None]:
    """The names of what an op descends from, and of what the graphs that it runs do."""
    inner = (inside for region in op.regions for graph in reachable(region) for inside in graph.ops)
    sources = sorted({source for part in (op, *inner) for source in part.origin.sources})
    return dict.fromkeys(names.get(source, source.name) for source in sources)


def _only(found: MapReport, text: str) -> MapReport:
    """The rows in which a text is, and those that these are connected with."""
    wanted = text.casefold()
    near = {
        row.number
        for row in found.operators
        if any(wanted in word.casefold() for word in (row.kind, row.name, *row.sources, *row.calls))
    }
    sources = tuple(
        row
        for row in found.sources
        if near.intersection(row.operators)
        or any(wanted in word.casefold() for word in (row.name, *row.kinds))
    )
    operators = tuple(row for row in found.operators if row.number in near)
    return replace(found, sources=sources, operators=operators)
