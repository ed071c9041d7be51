"""What a compiled partition needs of memory, and what is alive where it needs most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlet.backends.base import MemoryUse
from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.profiled import LinearPlan, PlannedStep
from circlet.plan.memory import alive_in, peak_of
from circlet.plan.partition import Partition


def memory_use(partition: Partition, compiled: LoweredPartition) -> MemoryUse:
    """The arena of a partition and its peak."""
    step, _ = peak_of(compiled.blocks)
    op = partition.ops[compiled.steps[step][0] if compiled.steps else 0]
    largest = sorted(alive_in(compiled.blocks, step), key=lambda block: -block.size_bytes)
    return MemoryUse(
        arena_bytes=compiled.memory.arena_bytes,
        lower_bound_bytes=compiled.memory.lower_bound_bytes,
        planner=compiled.memory.planner,
        peak_op=op.name,
        peak_kind=op.label,
        peak_tensors=tuple((block.name, block.size_bytes) for block in largest),
        constants_bytes=len(compiled.constants),
        rounded_ops=len({op for op, kernel in compiled.steps if "bf16" in kernel}),
        scratch_bytes=max((c.scratch_bytes for c in compiled.calls if c is not None), default=0),
        stripes=tuple(_stripes(compiled)),
        once=tuple(sorted(compiled.resident, key=lambda row: -row[1])),
        once_bytes=compiled.resident_bytes,
    )


def linear_plan(compiled: LoweredPartition) -> LinearPlan:
    """The steps of a partition, and where in its arena things lie."""
    steps = tuple(
        PlannedStep(op, kernel, call.tasks, tuple(t.name for t in call.writes))
        if call is not None
        else PlannedStep(op, kernel, 1)
        for (op, kernel), call in zip(compiled.steps, compiled.calls, strict=True)
    )
    return LinearPlan.of(steps, compiled.blocks, compiled.memory)


def _stripes(compiled: LoweredPartition) -> Iterator[tuple[str, int, int]]:
    for call in compiled.calls:
        if call is not None and call.kernel.function == "stripe":
            yield call.op.name, call.tasks, int(np.asarray(call.params["buffers_bytes"]))
