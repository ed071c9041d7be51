"""What a network needs of memory: planned exactly, and told of the user's tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from circlet.backends.base import MemoryUse
from circlet.backends.profiled import PlannedBlock, ShowsPlan
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Source, Template
from circlet.ir import Model, Tensor
from circlet.ir.regions import reachable
from circlet.ops.state import variables
from circlet.options import Options
from circlet.plan.partition import Partition
from circlet.target.threads import usable_cores


@dataclass(frozen=True)
class MemoryMap:
    """An arena over the schedule.

    Attributes:
        blocks: What lies in it.
        steps: For each step the operator that it belongs to, by source names.
    """

    blocks: tuple[PlannedBlock, ...]
    steps: tuple[str, ...]


NO_MAP = MemoryMap((), ())


@dataclass(frozen=True)
class AliveTensor:
    """A tensor that lies in the arena at the peak.

    Attributes:
        name: Its name in the file; that of the operator, where it is a kernel's working memory.
        size_bytes: What it takes.
        made_by: The source operators that compute it, "" where it is an input.
        first, last: Steps from and to which it is needed.
    """

    name: str
    size_bytes: int
    made_by: str
    first: int
    last: int


@dataclass(frozen=True)
class PartitionMemory:
    """The working memory of one partition.

    Attributes:
        partition, backend, ops: Its position in the plan, its backend, how many ops it has.
        arena_bytes: Size of the arena; what the plan takes at its peak.
        lower_bound_bytes: What no plan of these tensors can go below.
        planner: Which planner made the plan.
        peak_op, peak_kind: The operator that runs at the peak, by source names.
        alive: What lies in the arena then, the largest first.
        scratch_bytes: What each thread has besides.
        packed_bytes: Weights and tables as kernels read them.
        once: What is computed once for all runs and stays beside the arena: name and bytes, largest
            first.
        once_bytes: What that takes.
        map: Every tensor of the arena, with its place and its life.
    """

    partition: int
    backend: str
    ops: int
    arena_bytes: int
    lower_bound_bytes: int
    planner: str
    peak_op: str
    peak_kind: str
    alive: tuple[AliveTensor, ...]
    scratch_bytes: int
    packed_bytes: int
    map: MemoryMap = NO_MAP
    once: tuple[tuple[str, int], ...] = ()
    once_bytes: int = 0

    @property
    def gap_bytes(self) -> int:
        """What the plan takes above the lower bound."""
        return self.arena_bytes - self.lower_bound_bytes


@dataclass(frozen=True)
class MemoryReport:
    """What a network needs of memory.

    Attributes:
        model, level, target: What was planned.
        threads: Of a run.
        partitions: Those that plan memory; numpy allocates as it goes.
        values: Inputs, outputs, and what passes between partitions or lives on from run to run,
            by name: bytes of arrays that lie in no arena.
        file_weights_bytes: Constants as the file stores them.
        unplanned: Operators of backends that plan no memory.
    """

    model: str
    level: str
    target: str
    threads: int
    partitions: tuple[PartitionMemory, ...]
    values: Mapping[str, int] = field(default_factory=dict)
    file_weights_bytes: int = 0
    unplanned: tuple[str, ...] = ()

    @property
    def arena_bytes(self) -> int:
        """All arenas: each partition keeps its own."""
        return sum(part.arena_bytes for part in self.partitions)

    @property
    def once_bytes(self) -> int:
        """What depends on no input, and is computed once for all runs."""
        return sum(part.once_bytes for part in self.partitions)

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory of all threads."""
        return sum(part.scratch_bytes for part in self.partitions) * self.threads

    @property
    def values_bytes(self) -> int:
        """Arrays that lie in no arena."""
        return sum(self.values.values())

    @property
    def packed_bytes(self) -> int:
        """Weights and tables of all partitions."""
        return sum(part.packed_bytes for part in self.partitions)

    @property
    def planned_bytes(self) -> int:
        """All that a run takes beside code and weights: arenas, scratch memory, arrays, and what
        is computed once.
        """
        return self.arena_bytes + self.scratch_bytes + self.values_bytes + self.once_bytes

    @property
    def peak(self) -> PartitionMemory | None:
        """The partition with the largest arena."""
        return max(self.partitions, key=lambda part: part.arena_bytes, default=None)


def plan_memory(source: Source, options: Options, threads: int | None = None) -> MemoryReport:
    """Plan a network's memory for the first target, without compiling or running it.

    Raises:
        CircletError: As `circlet.compiler.planning.plan`.
    """
    template = Template.read(source, options)
    planned = plan(template, options)
    by_name = {compiler.name: compiler for compiler in planned.compilers}
    rows, unplanned = [], []
    for number, part in enumerate(planned.partitions):
        compiler = by_name[part.backend]
        use = compiler.memory(part)
        if use is None:
            unplanned += [op.name for op in part.ops]
            continue
        rows.append(_partition(number, part, use, _map(compiler, part)))
    return MemoryReport(
        model=str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else "",
        level=planned.job.level,
        target=str(planned.job.targets[0]),
        threads=threads or usable_cores(),
        partitions=tuple(rows),
        values=dict(_values(planned)),
        file_weights_bytes=_constants(template.copy()),
        unplanned=tuple(unplanned),
    )


def _map(compiler: object, part: Partition) -> MemoryMap:
    if not isinstance(compiler, ShowsPlan):
        return NO_MAP
    shown = compiler.linear_plan(part)
    return MemoryMap(shown.blocks, tuple(part.ops[step.op].name for step in shown.steps))


def _partition(number: int, part: Partition, use: MemoryUse, placed: MemoryMap) -> PartitionMemory:
    return PartitionMemory(
        partition=number,
        backend=part.backend,
        ops=len(part.ops),
        arena_bytes=use.arena_bytes,
        lower_bound_bytes=use.lower_bound_bytes,
        planner=use.planner,
        peak_op=use.peak_op,
        peak_kind=use.peak_kind,
        alive=tuple(_alive(part, use, placed)),
        scratch_bytes=use.scratch_bytes,
        packed_bytes=use.constants_bytes,
        map=placed,
        once=use.once,
        once_bytes=use.once_bytes,
    )


def _alive(part: Partition, use: MemoryUse, placed: MemoryMap) -> Iterator[AliveTensor]:
    """What is alive at the peak, and who makes it; lives are those of the map, if there is one."""
    ops = [op for graph in reachable(part.graph()) for op in graph.ops]
    makers = {tensor.name: op.name for op in ops for tensor in op.outputs}
    blocks = {(block.name, block.size_bytes): block for block in placed.blocks}
    for name, size in use.peak_tensors:
        block = blocks.get((name, size), PlannedBlock(name, 0, size, 0, 0))
        yield AliveTensor(name, size, makers.get(name, ""), block.first, block.last)


def _values(planned: PlannedModel) -> Iterator[tuple[str, int]]:
    graph = planned.model.main
    made = (tensor for part in planned.partitions for tensor in part.outputs)
    for tensor in dict.fromkeys([*graph.inputs, *variables(graph), *made]):
        yield tensor.name, tensor.size_bytes


def _constants(model: Model) -> int:
    """Bytes of all constants; data that tensors share counts once."""
    tensors: list[Tensor] = [t for graph in model.graphs for t in graph.constants()]
    places = {
        (t.data.ctypes.data, t.data.nbytes): t.data.nbytes for t in tensors if t.data is not None
    }
    return sum(places.values())
