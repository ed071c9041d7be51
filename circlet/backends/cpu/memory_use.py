"""What a compiled partition needs of memory, and what is alive where it needs most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from circlet.backends.base import MemoryUse
from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.profiled import LinearPlan, PlannedBlock, PlannedStep
from circlet.plan.memory import Block
from circlet.plan.partition import Partition


def memory_use(partition: Partition, compiled: LoweredPartition) -> MemoryUse:
    """The arena of a partition and its peak."""
    step, alive = _peak(compiled.blocks)
    op = partition.ops[compiled.steps[step][0] if compiled.steps else 0]
    largest = sorted(alive, key=lambda block: -block.size_bytes)
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
    )


def linear_plan(compiled: LoweredPartition) -> LinearPlan:
    """The steps of a partition, and where in its arena things lie."""
    steps = tuple(
        PlannedStep(op, kernel, call.tasks, tuple(t.name for t in call.writes))
        if call is not None
        else PlannedStep(op, kernel, 1)
        for (op, kernel), call in zip(compiled.steps, compiled.calls, strict=True)
    )
    memory = compiled.memory
    blocks = tuple(
        PlannedBlock(block.name, offset, block.size_bytes, block.first, block.last)
        for block, offset in zip(compiled.blocks, memory.offsets, strict=True)
    )
    return LinearPlan(steps, blocks, memory.arena_bytes, memory.planner)


def _stripes(compiled: LoweredPartition) -> Iterator[tuple[str, int, int]]:
    for call in compiled.calls:
        if call is not None and call.kernel.function == "stripe":
            yield call.op.name, call.tasks, int(np.asarray(call.params["buffers_bytes"]))


def _peak(blocks: Iterable[Block]) -> tuple[int, list[Block]]:
    """The first step at which most bytes are alive, and what is alive then.

    A peak begins where a block is born, so only those steps are looked at.
    """
    changes: Counter[int] = Counter()
    known = list(blocks)
    for block in known:
        changes[block.first] += block.size_bytes
        changes[block.last + 1] -= block.size_bytes
    live, best, at = 0, 0, 0
    for step in sorted(changes):
        live += changes[step]
        if live > best:
            best, at = live, step
    return at, [block for block in known if block.first <= at <= block.last]
