"""Partitions of a network to native code: for each target lowered to C, all of it built at once."""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from circlet.artifact.file import PartitionCode
from circlet.backends import base
from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.bound_ops import bind
from circlet.backends.cpu.bounds import Bounds, NotBoundError, bounded_partition, needs_bounds
from circlet.backends.cpu.compile import LoweredPartition, RunBounds, compile_partition
from circlet.backends.cpu.control import ControlFlow, is_control
from circlet.backends.cpu.details import details_of
from circlet.backends.cpu.lower.floats.bf16 import has_bf16
from circlet.backends.cpu.lowering import LOWERINGS, Lowering
from circlet.backends.cpu.memory_use import linear_plan, memory_use
from circlet.backends.cpu.passes import IN_PLACE, native_pipeline
from circlet.backends.cpu.ports import bounded_ports
from circlet.backends.cpu.processes import Compilers
from circlet.backends.cpu.profiling.work import operator_works, works_of
from circlet.backends.cpu.reuse_index import ReuseIndex
from circlet.backends.cpu.runtime_library import plain_target, runtime_image
from circlet.backends.cpu.toolchain import UnitSource, check_targets, compile_units, started
from circlet.backends.cpu.tuning.knobs import KnobSettings
from circlet.backends.detailed import PartitionDetails
from circlet.backends.profiled import LinearPlan, Steps, Work
from circlet.cached import cached_property
from circlet.config import Config
from circlet.errors import LimitError
from circlet.ir import DType, Op
from circlet.limits import MemoryBudget
from circlet.ops import unsupported_reason
from circlet.ops.decomposition import decomposed
from circlet.ops.work import work_of
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition
from circlet.progress import Stage
from circlet.target.targets import Target
from circlet.target.threads import usable_cores

_SHARE_OF_BOUND = 16  # of the memory that is left, and of the work of a run: one of so many parts
LOGGER = logging.getLogger(__name__)
Build = Callable[[Sequence[UnitSource]], list[bytes]]
LoweredByTarget = Mapping[Target, Sequence[LoweredPartition]]


class CpuCompiler:
    """The cpu backend at work on one network; takes an op when every target has a kernel for it."""

    name = "cpu"

    def __init__(self, job: base.CompileJob) -> None:
        self.job = job
        self._rows: dict[tuple[Op, Target], Lowering] = {}
        self._control = ControlFlow()
        lacking = [str(target) for target in job.targets if not has_bf16(target)]
        if job.precision == "bf16" and lacking and not job.is_resized:
            names = ", ".join(lacking)
            LOGGER.warning("no instructions for bf16, which may take longer than f32: %s", names)

    @property
    def config(self) -> Config:
        """The settings, without a cache where the job does without one."""
        config = Config.from_environment()
        return config if self.job.options.cache else config._replace(cache_bytes=0)

    def supports(self, op: Op) -> Supported | Reason:
        """The name of the lowering, or the reasons of all rows of the kind."""
        unsupported = unsupported_reason(op)
        if unsupported is not None:
            return Reason(unsupported)
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and tensor.dtype is DType.STRING:
                return Reason("strings have no fixed size in memory")
        if needs_bounds(op, self.job.sizes):
            return self._supports_bounded(op)
        parts = decomposed(op)
        if parts:
            answers = map(self.supports, parts)
            return next((a for a in answers if isinstance(a, Reason)), Supported("decomposed"))
        names = []
        for target in self.job.targets:
            if is_control(op):
                reason = self._control.refusal(op, target)
                if reason is not None:
                    return Reason(reason)
                names.append("jumps")
                continue
            row = LOWERINGS.choose(op, target)
            if isinstance(row, str):
                return Reason(row)
            self._rows[op, target] = row
            names.append(row.name)
        return Supported(names[0])

    @cached_property
    def _most_bytes(self) -> int:
        """How large a tensor may be made for the sake of runs that fill it.

        Numpy takes no more than a run needs: a network is not to pass a limit by bounds alone.
        """
        allowed = self.job.budget.left // _SHARE_OF_BOUND
        return min(self.job.options.limits.tensor_bytes, allowed)

    def _supports_bounded(self, op: Op) -> Supported | Reason:
        """Whether kernels take the ops that stand for one whose sizes a run decides."""
        bounds = Bounds(self.job.sizes, self._most_bytes, is_trial=True)
        try:
            bind(op, bounds)
        except NotBoundError as error:
            return Reason(str(error))
        work = sum(map(work_of, bounds.done)) + bounds.loop_work
        most = self.job.most_work // _SHARE_OF_BOUND
        if work > most:
            return Reason(f"it might do {work} operations, the limit is {most}")
        answers = map(self.supports, bounds.done)
        return next((a for a in answers if isinstance(a, Reason)), Supported("bounded"))

    def optimize(self, partition: Partition) -> Partition:
        """The partition after the level's passes over native code."""
        partition = bounded_partition(partition, self.job.sizes, self._most_bytes)
        job, graph = self.job, partition.graph()
        how = {"resized": job.is_resized, "check": LOGGER.isEnabledFor(logging.DEBUG)}
        native_pipeline(job.level, derived=job.derived, **how).run(graph)
        return replace(partition, ops=tuple(graph.ops), in_place=job.level in IN_PLACE)

    def compile(self, partitions: Sequence[Partition]) -> base.Compiled:
        """Plans, packed constants and units of partitions.

        Raises:
            CompilerMissingError, CompileError, CacheError: The C cannot be compiled.
            LimitError: Constants and arenas take more than allowed.
        """
        if not partitions:
            return base.Compiled(())
        check_targets(self.job.targets, self.config)
        lowered = {}
        for target in self.job.targets:
            budget = self.job.budget.copy()
            lowered[target] = [self.lowered(part, target, budget=budget) for part in partitions]
            for part in lowered[target]:  # kept while the next target is at work, unlike arenas
                self.job.budget.charge_packed(len(part.constants), str(target))
        refused = self.refused(partitions, lowered)
        return base.Compiled((), refused=refused) if refused else self.built(lowered)

    def refused(
        self, partitions: Sequence[Partition], lowered: LoweredByTarget
    ) -> Mapping[int, str]:
        """Source operators that need more kernels than may be compiled, and why."""
        return ChainMap(*(self._refused(partitions, parts) for parts in lowered.values()))

    def _refused(
        self, partitions: Sequence[Partition], lowered: Sequence[LoweredPartition]
    ) -> dict[int, str]:
        """Source operators from the one on that needs a kernel more than may be compiled."""
        left = self.job.options.limits.kernels
        why = f"more than {left} distinct kernels would be compiled: raise `kernels` of its limits"
        late: list[Op] = []
        for partition, part in zip(partitions, lowered, strict=True):
            first = part.firsts[left] if left < len(part.firsts) else len(partition.ops)
            late += partition.ops[0 if late else first :]
            left -= len(part.firsts)
        return {source.id: why for op in late for source in op.origin.sources}

    def check_kernels(self, lowered: LoweredPartition) -> None:
        """LimitError where a partition needs more kernels compiled than a whole network may."""
        count, most = len(lowered.firsts), self.job.options.limits.kernels
        if count > most:
            raise LimitError(
                "the network needs more distinct kernels than allowed",
                why=f"{count}, the limit is {most}",
                fix="raise `kernels` of circlet.limits.Limits if this is meant",
            )

    def memory(self, partition: Partition) -> base.MemoryUse:
        """What a partition needs for the first target."""
        return memory_use(partition, self._planned(partition))

    def linear_plan(self, partition: Partition) -> LinearPlan:
        """The steps and the arena of a partition for the first target."""
        return linear_plan(self._planned(partition))

    def _planned(self, partition: Partition) -> LoweredPartition:
        target, precision = self.job.targets[0], self.job.precision
        budget = self.job.budget.copy()
        return compile_partition(partition, target, 1, precision=precision, budget=budget)

    def works(
        self, partition: Partition, steps: Steps, step_us: Sequence[float]
    ) -> list[Work | None]:
        """The work of each step for the first target, as `circlet.backends.profiled` has it.

        Where kernels were chosen otherwise than now (by tuning, or among those that were loaded),
        it is that of their operators.
        """
        compiled = self.lowered(partition, self.job.targets[0])
        if list(compiled.steps) == [(op, kernel) for op, kernel in steps]:
            return works_of(partition, compiled.calls, step_us, len(compiled.constants))
        return operator_works(partition, steps)

    def details(self, partition: Partition) -> PartitionDetails:
        """How a partition runs on the first target."""
        return details_of(partition, self.lowered(partition, self.job.targets[0]))

    def lowered(
        self,
        partition: Partition,
        target: Target,
        reuse: ReuseIndex | None = None,
        settings: KnobSettings | None = None,
        budget: MemoryBudget | None = None,
    ) -> LoweredPartition:
        """A partition as C and a plan.

        Args:
            reuse: Kernels and constants of another size of the network that are loaded.
            settings: What lowerings are to choose; takes down the knobs that came up.
            budget: What it is charged to; None where it is the only partition that is kept.

        Raises:
            LimitError: Its constants and its arena take more than allowed.
        """
        budget = budget or self.job.budget.copy()
        for tensor in bounded_ports(partition):
            budget.charge(tensor.size_bytes, tensor.name, "its array, at the most")
        compiled = compile_partition(
            partition,
            target,
            usable_cores(),
            RunBounds(self.job.options.limits.loop_turns, self.job.most_work),
            names=self.job.constant_names,
            reuse=reuse,
            rows=self._rows,
            settings=settings,
            precision=self.job.precision,
            budget=budget,
        )
        calls = [call for call in compiled.calls if call is not None]
        if calls:
            widest = max(calls, key=lambda call: call.scratch_bytes)
            size = widest.scratch_bytes * usable_cores()
            budget.charge(size, widest.op.name, "working memory of its threads")
        return compiled

    def built(self, lowered: LoweredByTarget, build: Build | None = None) -> base.Compiled:
        """Partitions that are lowered, for each target in the same order, all C built at once."""
        config = self.config
        sources = [
            UnitSource(text, target)
            for target, parts in lowered.items()
            for part in parts
            for text in part.units
        ]
        plain = {target: plain_target(target) for target in lowered}
        if build is None:
            stage = Stage("compiling", sum(unit.kernels for unit in sources), "kernels")
            build = partial(compile_units, config=config, stage=stage)
        with ThreadPoolExecutor() as pool, Compilers() as compilers:
            kinds = list(dict.fromkeys(plain.values()))
            make = partial(runtime_image, config=config, compilers=compilers)
            runtimes = started(pool, make, kinds)
            images = iter(build(sources) if sources else [])
            runtime_of = dict(zip(kinds, runtimes, strict=True))
        codes = {
            target: [partition_code(part, images) for part in parts]
            for target, parts in lowered.items()
        }
        first = next(iter(lowered.values()))
        partitions = tuple(
            base.CompiledPartition(
                {target: own[number] for target, own in codes.items()}, facts_of(part)
            )
            for number, part in enumerate(first)
        )
        return base.Compiled(partitions, {t: runtime_of[own] for t, own in plain.items()})


def partition_code(compiled: LoweredPartition, images: Iterator[bytes]) -> PartitionCode:
    """What an artifact keeps of a partition, whose units are the next images."""
    sections = {
        "plan": (compiled.plan,),
        "units": tuple(next(images) for _ in compiled.units),
        "reuse": (compiled.reuse.to_bytes(),),
        "values": (compiled.values(),),
    }
    if compiled.sizes:
        sections["sizes"] = (compiled.sizes,)
    return PartitionCode("cpu", compiled.constants, sections)


def facts_of(compiled: LoweredPartition) -> dict[str, object]:
    """What loading, and a user, may ask of a partition."""
    memory = compiled.memory
    return {
        "lowerings": compiled.lowerings,
        "steps": compiled.steps,
        "arena_bytes": memory.arena_bytes + compiled.ports_bytes,
        "once_bytes": compiled.resident_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "planner": memory.planner,
    }
