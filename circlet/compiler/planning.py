"""From a checked model to partitions: sizes, passes, placement, the backends' own passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from circlet.artifact.values import TEXT_BYTES, unique_names
from circlet.backends.base import CompileJob, PartitionCompiler
from circlet.backends.faults import Asked, faults_of, names_of, started_compiler
from circlet.compiler.loop_rooms import give_room
from circlet.compiler.partitioning import partitioned
from circlet.compiler.template import Template
from circlet.errors import BackendError, CircletError, GraphError, InputError, LimitError
from circlet.ir import DType, Graph, Model, Op, Origin, Tensor
from circlet.ir.origin import free_id
from circlet.ir.regions import reachable
from circlet.limits import MemoryBudget
from circlet.ops.shape import copy_op
from circlet.ops.state import initial_bytes, variables
from circlet.ops.work import check_work
from circlet.options import PRECISIONS, Options, Shapes
from circlet.passes import PassManager, Rewriter, pipeline
from circlet.passes.add_states import add_states
from circlet.passes.derived import Derived
from circlet.passes.fold_constants import FoldLedger
from circlet.passes.fuse_qdq import FuseQdq
from circlet.placement.by_hand import chosen_by_hand
from circlet.placement.by_source import chosen_by_source
from circlet.placement.interface import Candidate
from circlet.placement.rule import Placed, Without, place
from circlet.placement.views import with_views_moved
from circlet.plan.input_shapes import forget_computed_sizes, set_input_shapes
from circlet.plan.partition import Partition
from circlet.plan.shapes import fix_shapes
from circlet.plan.size_rules import settle_sizes
from circlet.plan.spreads import drop_spreads
from circlet.target.targets import parse_targets

T = TypeVar("T")
_DESCRIBED = 6  # bytes of text, twice over, and of copies for each byte that a variable starts as
LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlannedModel:
    """A model after its passes, with the place of every op.

    Attributes:
        job: The options, resolved.
        model: The rewritten model.
        placed: The placement table.
        partitions: In the order of execution, after the passes of their backends.
        open_sizes: The dimensions of the inputs that the file leaves open.
        compilers: The backends at work, in the order of the options.
        operators: The origin of each operator of the file.
        loop_room: For how many turns some loops have room; 0 where none may need more.
    """

    job: CompileJob
    model: Model
    placed: list[Placed]
    partitions: list[Partition]
    open_sizes: dict[Tensor, tuple[int, ...]]
    compilers: Sequence[PartitionCompiler]
    operators: Sequence[Origin] = ()
    loop_room: int = 0

    def operators_in(self, ops: Sequence[Op]) -> int:
        """How many operators of the file some ops, and graphs that they run, have a part in."""
        inner = (graph for op in ops for region in op.regions for graph in reachable(region))
        parts = chain(ops, (op for graph in inner for op in graph.ops))
        ids = {source.id for op in parts for source in op.origin.sources}
        return sum(any(source.id in ids for source in own.sources) for own in self.operators)

    @property
    def shapes(self) -> Shapes:
        """The sizes that inputs got which the file leaves open, by name."""
        inputs = self.model.main.inputs
        named = zip(unique_names(inputs), inputs, strict=True)
        return tuple((name, t.static_shape) for name, t in named if self.open_sizes.get(t))

    def partitions_of(self, compiler: PartitionCompiler) -> list[Partition]:
        """The partitions of one backend."""
        return [part for part in self.partitions if part.backend == compiler.name]

    def in_order(self, made: Mapping[str, Sequence[T]]) -> list[T]:
        """What backends, by name, made of each of their partitions, in the order of the plan.

        Raises:
            BackendError: A backend made more or fewer than it was given.
        """
        for compiler in self.compilers:
            count, wanted = len(made[compiler.name]), len(self.partitions_of(compiler))
            if count != wanted:
                raise BackendError(
                    "a backend compiled other partitions than it was given",
                    where=compiler.name,
                    why=f"it made {count} of {wanted}",
                    fix="report this to whoever wrote the backend",
                )
        rest = {name: iter(parts) for name, parts in made.items()}
        return [next(rest[part.backend]) for part in self.partitions]


def plan(
    template: Template,
    options: Options,
    *,
    loaded: frozenset[str] | None = None,
    refused: Mapping[str, Mapping[int, str]] | None = None,
    asking: Callable[[Candidate], Candidate] = Asked,
) -> PlannedModel:
    """Optimise, place and partition a copy of a checked model.

    Args:
        refused: Ids of source operators that backends, by name, are not to be given, and why.
        asking: What asks a backend about operators.
        loaded: Backends that have code of the network at other sizes of its inputs loaded; None
            where it was never compiled.

    Raises:
        InputError: There is no such backend, level or precision.
        GraphError: A rule of an operator is broken, or the network does not work for the sizes.
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend.
        LimitError: A tensor, or all inputs, outputs and what passes between partitions, are larger
            than allowed; or a run does more work.
    """
    refused = refused or {}
    budget = template.budget.copy()
    most_work = options.limits.allowed_work(budget.file_bytes)
    targets = parse_targets(options.target)
    # What a first plan makes is not kept: most networks are never planned again.
    derived = Derived() if loaded is None else template.derived
    job = CompileJob(options, targets, template.names, loaded, budget, most_work, derived=derived)
    compilers = _compilers(job)
    model, open_sizes = _rewritten(template, job)
    graph = model.main
    settle_sizes(graph, job.sizes)
    asked = [asking(compiler) for compiler in compilers]
    candidates = [Without(c, refused[c.name]) if c.name in refused else c for c in asked]
    loop_room = give_room(graph, job.sizes, options.loop_room, candidates)
    job.sizes.state()
    drop_spreads(graph, job.sizes)
    placed = _placed(graph, options, template.words, candidates)
    most, is_parallel = options.limits.partitions, options.executor == "parallel"
    last = compilers[len(options.preferred) - 1]
    placed, parts = partitioned(graph, placed, last, most, side_by_side=is_parallel)
    by_name = {compiler.name: compiler for compiler in compilers}
    optimized = [_optimized(part, by_name[part.backend]) for part in parts]
    _charge_values(graph, optimized, budget)
    return PlannedModel(
        job, model, placed, optimized, open_sizes, compilers, template.operators, loop_room
    )


def _compilers(job: CompileJob) -> list[PartitionCompiler]:
    """The backends that were asked for at work, in order."""
    if not job.options.backends:
        raise InputError("no backend is given", where="backends", fix="name at least one")
    if job.precision not in PRECISIONS:
        fix = f"choose {' or '.join(PRECISIONS)}"
        raise InputError("there is no such precision", where=job.precision, fix=fix)
    return [started_compiler(name, job) for name in job.options.all_backends]


def _rewritten(template: Template, job: CompileJob) -> tuple[Model, dict[Tensor, tuple[int, ...]]]:
    """A copy of a model after the passes of the level; and the open dimensions of its inputs."""
    ledger = FoldLedger(job.budget)
    model, open_sizes = _settled(template, job, ledger)
    graph = model.main
    add_states(graph)
    check_work(graph, job.most_work)
    model.graphs = reachable(graph)
    PassManager((FuseQdq(),)).run(model)  # at every level: what is stored decides the arithmetic
    log = pipeline(job.level, options={"fold-constants": {"ledger": ledger}}).run(model)
    LOGGER.info("passes applied: %s", ", ".join(dict.fromkeys(log.applied)))
    _copy_outputs(graph)
    return model, open_sizes


def _settled(
    template: Template, job: CompileJob, ledger: FoldLedger
) -> tuple[Model, dict[Tensor, tuple[int, ...]]]:
    """A copy of a model with sizes that it works for, and the open dimensions of its inputs.

    Sizes that nothing states are 1, or where the network refuses that, the first guess that fits:
    one that fits all branches, if there are any.
    """
    refusal: CircletError | None = None
    for may_refuse in (False, True) if template.has_branches else (False,):
        for guess in template.guesses:
            model, options = template.copy(), job.options
            graph = model.main
            graph.inputs[:] = [tensor for tensor in graph.inputs if not tensor.is_constant]
            inputs = graph.inputs
            open_sizes = {t: tuple(i for i, n in enumerate(t.shape) if n is None) for t in inputs}
            set_shapes_of(graph, options.shapes)
            if not guess.is_first and not guess.give(graph):
                break
            how = {"resized": job.is_resized, "may_refuse": may_refuse}
            try:
                fix_shapes(graph, options.limits, ledger=ledger, **how)
            except (GraphError, LimitError) as error:
                refusal = refusal or error
            else:
                return model, open_sizes
    assert refusal is not None
    raise refusal


def _placed(
    graph: Graph,
    options: Options,
    words: Mapping[int, frozenset[str]],
    candidates: Sequence[Candidate],
) -> list[Placed]:
    """The placement table, before the plan is cut into partitions."""
    wanted = {
        **chosen_by_source(graph, options, words, candidates),
        **chosen_by_hand(graph, options.backend_of, candidates),
    }
    first = candidates[: len(options.preferred)]
    placed = place(graph, first, strict=options.strict, wanted=wanted)
    if options.strict:
        return placed
    return with_views_moved(graph, placed, {c.name: c for c in candidates}, wanted)


def _optimized(part: Partition, compiler: PartitionCompiler) -> Partition:
    with faults_of(compiler.name, "when it optimised a partition", names_of([part])):
        return compiler.optimize(part)


def _charge_values(graph: Graph, parts: Sequence[Partition], budget: MemoryBudget) -> None:
    """Charge the arrays of a run that lie in no arena and whose sizes are known."""
    made = [tensor for part in parts for tensor in part.outputs]
    for tensor in dict.fromkeys([*graph.inputs, *variables(graph), *made]):
        if None not in tensor.shape:
            text_bytes = TEXT_BYTES * tensor.elements if tensor.dtype is DType.STRING else 0
            budget.charge(tensor.size_bytes + text_bytes, tensor.name, "its array")
        if tensor.initial is not None:
            size = _DESCRIBED * len(initial_bytes(tensor))
            budget.charge(size, tensor.name, "what it starts as, in the artifact's description")


def set_shapes_of(graph: Graph, shapes: Shapes) -> None:
    """Give inputs, by name, other sizes than the file's; raises as `set_input_shapes`."""
    if shapes:
        forget_computed_sizes(reachable(graph))
    set_input_shapes(dict(zip(unique_names(graph.inputs), graph.inputs, strict=True)), shapes)


def _copy_outputs(graph: Graph) -> None:
    """Have each output made by an operator of its own; inputs, constants and repeats are copied."""
    rewriter, made = Rewriter(graph), set(graph.producers())
    free = free_id(op.origin for part in reachable(graph) for op in part.ops)
    for position, tensor in enumerate(graph.outputs):
        if tensor in made:
            made.remove(tensor)
            continue
        producer, number = rewriter.producer(tensor), free + position
        origin = producer.origin if producer else Origin.of(number, tensor.name)
        copy = tensor.like()
        rewriter.append(copy_op(tensor, copy, origin))
        graph.outputs[position] = copy
    rewriter.finish()
