"""A network at the stages of its compilation, as text in ONE's form or for GraphViz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlet.backends.base import PartitionCompiler
from circlet.backends.profiled import LinearPlan, ShowsPlan
from circlet.commands.dot import dot_of
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.errors import InputError
from circlet.formats import load
from circlet.ir import Graph, Op, Tensor
from circlet.ir.text import shape_text
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.plan.partition import Partition
from circlet.words import counted

STAGES = ("model", "lowered", "plan")
FORMATS = ("text", "dot")


@dataclass(frozen=True)
class StageRequest:
    """What is to be shown.

    Attributes:
        model: A model file of any format.
        stage: One of `STAGES`: as the file has it; after the passes, with a backend for each
            operator; or as the steps and the memory of each partition.
        format: One of `FORMATS`; a plan is text.
        with_constants: Whether graphs for GraphViz have constants too.
        options: How it is compiled.
    """

    model: Path
    stage: str
    format: str = "text"
    with_constants: bool = False
    options: Options = DEFAULT_OPTIONS


@dataclass(frozen=True)
class StageDump:
    """A stage as text."""

    model: str
    stage: str
    format: str
    text: str


def dump_stage(request: StageRequest) -> StageDump:
    """The text of a stage.

    Raises:
        InputError: There is no such stage, or it has no such format.
        CircletError: The model cannot be read or planned.
    """
    if request.stage not in STAGES or request.format not in FORMATS:
        where = f"{request.stage}, {request.format}"
        raise InputError("there is no such stage or format", where=where)
    if request.stage == "plan" and request.format != "text":
        raise InputError("a plan is no graph", where="--format", fix="show the stage `lowered`")
    text = _text(request)
    return StageDump(str(request.model), request.stage, request.format, text)


def _text(request: StageRequest) -> str:
    model = load(request.model, request.options.limits)
    if request.stage == "model":
        shown = [_shown(graph, {}, request) for graph in model.graphs]
        return "".join(shown) if request.format == "dot" else _numbered(shown)
    planned = plan(Template.of(model, request.options), request.options)
    if request.stage == "plan":
        return _plan_text(planned)
    places = {op: part.backend for part in planned.partitions for op in part.ops}
    return _shown(_lowered_graph(planned), places, request)


def _lowered_graph(planned: PlannedModel) -> Graph:
    """All partitions as one graph, after the passes of their backends."""
    graph = planned.model.main
    ops = [op for part in planned.partitions for op in part.ops]
    lowered = Graph(graph.name, [*graph.inputs], [*graph.outputs], ops)
    lowered.tensors = list(dict.fromkeys((*lowered.inputs, *lowered.used_tensors())))
    return lowered


def _numbered(shown: Sequence[str]) -> str:
    if len(shown) == 1:
        return shown[0]
    return "".join(f"${number}\n{text}" for number, text in enumerate(shown))


def _shown(graph: Graph, places: Mapping[Op, str], request: StageRequest) -> str:
    if request.format == "dot":
        return dot_of(graph, places, with_constants=request.with_constants)
    return "\n".join(_graph_lines(graph, places)) + "\n"


def numbers_of(graph: Graph) -> dict[Tensor, int]:
    """The number of each operand: inputs first, then as they are used."""
    known = dict.fromkeys((*graph.inputs, *graph.tensors, *graph.used_tensors()))
    return {tensor: number for number, tensor in enumerate(known)}


def _graph_lines(graph: Graph, places: Mapping[Op, str]) -> Iterator[str]:
    numbers = numbers_of(graph)
    yield "{"
    for index, op in enumerate(graph.ops):
        yield f"  {_op_text(op, index, numbers)}{_place(op, places)}"
    yield "}"
    yield f"inputs: {_names(graph.inputs, numbers)}"
    yield f"outputs: {_names(graph.outputs, numbers)}"
    for tensor, number in numbers.items():
        role = " constant" if tensor.is_constant else ""
        sizes = shape_text(tensor.shape, tensor.has_rank)
        yield f"%{number}: {tensor.dtype.name}{sizes}{role} {tensor.name}".rstrip()


def _op_text(op: Op, index: int, numbers: Mapping[Tensor, int]) -> str:
    """`%out = @index_KIND(%in, ...)`, as ONE writes it; -1 stands for an omitted operand."""
    return f"{_names(op.outputs, numbers)} = @{index}_{op.label}({_names(op.inputs, numbers)})"


def _names(tensors: Sequence[Tensor | None], numbers: Mapping[Tensor, int]) -> str:
    return ", ".join(f"%{-1 if tensor is None else numbers[tensor]}" for tensor in tensors)


def _place(op: Op, places: Mapping[Op, str]) -> str:
    return f" [{places[op]}]" if op in places else ""


def _plan_text(planned: PlannedModel) -> str:
    compilers = {compiler.name: compiler for compiler in planned.compilers}
    numbers = numbers_of(_lowered_graph(planned))
    lines: list[str] = []
    makers: dict[Tensor, int] = {}
    first = 0
    for number, part in enumerate(planned.partitions):
        lines += _part_lines(number, part, compilers[part.backend], first, numbers)
        lines += _permutations(part, planned.partitions, makers)
        makers |= dict.fromkeys(part.outputs, number)
        first += len(part.ops)
    return "\n".join(lines) + "\n"


def _part_lines(
    number: int,
    part: Partition,
    compiler: PartitionCompiler,
    first: int,
    numbers: Mapping[Tensor, int],
) -> Iterator[str]:
    shown = compiler.linear_plan(part) if isinstance(compiler, ShowsPlan) else None
    yield f"partition {number} [{part.backend}]: {counted(len(part.ops), 'fused operator')}"
    yield "{"
    for index, op in enumerate(part.ops):
        yield f"  {_op_text(op, first + index, numbers)} from {op.name}"
        yield from () if shown is None else _sequence(shown, index)
    yield "}"
    if shown is not None:
        yield from _memory(shown)


def _sequence(shown: LinearPlan, index: int) -> Iterator[str]:
    """The steps of one operator, in the order in which they run."""
    for place, step in enumerate(shown.steps):
        if step.op == index:
            tasks = f" x {step.tasks}" if step.tasks != 1 else ""
            yield f"    step {place}: {step.kernel}{tasks}"


def _memory(shown: LinearPlan) -> Iterator[str]:
    yield f"memory: {shown.arena_bytes} bytes, planned by {shown.planner}"
    for block in sorted(shown.blocks, key=lambda block: (block.first, block.offset)):
        lives = f"steps {block.first} to {block.last}"
        yield f"  {block.offset} + {block.size_bytes}: {block.name}, {lives}"


def _permutations(
    part: Partition, parts: Sequence[Partition], makers: Mapping[Tensor, int]
) -> Iterator[str]:
    """Values that come from another backend."""
    for tensor in part.inputs:
        if tensor in makers:
            source = parts[makers[tensor]].backend
            yield f"permute {tensor.name}: {source} to {part.backend}, {tensor.dtype.name}"
