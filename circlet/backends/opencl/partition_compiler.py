"""Compiles the partitions of one network for the chosen device."""

from __future__ import annotations

import json
from collections.abc import Sequence

from circlet.artifact.file import PartitionCode
from circlet.backends.base import Compiled, CompiledPartition, CompileJob, MemoryUse
from circlet.backends.opencl.compile import CompiledKernels, compile_partition, refusal
from circlet.backends.opencl.device import DeviceFacts
from circlet.backends.opencl.use import linear_plan, memory_use, works_of
from circlet.backends.profiled import LinearPlan, Steps, Work
from circlet.ir import Op
from circlet.limits import MemoryBudget
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition


class OpenClCompiler:
    """Takes ops that kernels of a device compute.

    Attributes:
        name: The backend's name.
        job: What is compiled for.
    """

    name = "opencl"

    def __init__(self, job: CompileJob, facts: DeviceFacts) -> None:
        self.job, self._facts = job, facts
        self._answers: dict[Op, Supported | Reason] = {}

    def supports(self, op: Op) -> Supported | Reason:
        """Whether kernels for the op can be written."""
        if op not in self._answers:
            reason = refusal(op, self._facts)
            self._answers[op] = Reason(reason) if reason else Supported("OpenCL C")
        return self._answers[op]

    def optimize(self, partition: Partition) -> Partition:
        """The partition as it is; chains are joined where kernels are written."""
        return partition

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Source, constants and launch table of each partition.

        Raises:
            LimitError: Constants take more than allowed.
        """
        made = [self._made(part, self.job.budget) for part in partitions]
        refused = self._refused(partitions, made)
        return Compiled((), refused=refused) if refused else Compiled(tuple(map(self._kept, made)))

    def memory(self, partition: Partition) -> MemoryUse:
        """The arena on the device."""
        return memory_use(self._planned(partition))

    def linear_plan(self, partition: Partition) -> LinearPlan:
        """The launches in order, and what the arena holds."""
        return linear_plan(self._planned(partition))

    def works(
        self, partition: Partition, steps: Steps, step_us: Sequence[float]
    ) -> list[Work | None]:
        """The work of each launch, as `circlet.backends.profiled` has it."""
        return works_of(self._planned(partition))

    def _planned(self, partition: Partition) -> CompiledKernels:
        return self._made(partition, self.job.budget.copy())

    def _made(self, partition: Partition, budget: MemoryBudget) -> CompiledKernels:
        return compile_partition(partition, self._facts, budget, self.job.precision)

    def _refused(
        self, partitions: Sequence[Partition], made: Sequence[CompiledKernels]
    ) -> dict[int, str]:
        """Sources of partitions that need more kernels than may be compiled, or too much memory."""
        left, refused = self.job.options.limits.kernels, dict[int, str]()
        for partition, part in zip(partitions, made, strict=True):
            left -= part.source.count("__kernel")
            reason = ""
            if left < 0:
                reason = "more distinct kernels would be compiled than its limits allow"
            elif max(part.memory.arena_bytes, len(part.constants)) > self._facts.most_bytes:
                reason = "its tensors together are larger than a buffer of the device"
            if reason:
                sources = {source.id for op in partition.ops for source in op.origin.sources}
                refused.update(dict.fromkeys(sources, reason))
        return refused

    def _kept(self, made: CompiledKernels) -> CompiledPartition:
        table = json.dumps(made.table.as_json(), separators=(",", ":")).encode()
        sections = {"table": (table,), "source": (made.source.encode("ascii"),)}
        code = PartitionCode(self.name, made.constants, sections)
        steps = [[made.owners[number], launch.kernel] for number, launch in made.launches]
        facts = {"arena_bytes": made.memory.arena_bytes, "steps": steps}
        return CompiledPartition(dict.fromkeys(self.job.targets, code), facts)
