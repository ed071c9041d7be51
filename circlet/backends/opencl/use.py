"""What compiled partitions need of memory and of arithmetic, for reports."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.base import MemoryUse
from circlet.backends.opencl.compile import CompiledKernels
from circlet.backends.opencl.table import Launch
from circlet.backends.profiled import LinearPlan, PlannedStep, Work
from circlet.ir import DType, Op
from circlet.ops import find
from circlet.plan.memory import alive_in, peak_of

_COPIES = ("copy_", "gather_", "fill_")
_UNITS = {DType.INT16: "int16", DType.INT8: "int8", DType.UINT8: "int8"}


def memory_use(made: CompiledKernels) -> MemoryUse:
    """The arena of a partition and its peak."""
    at, _ = peak_of(made.blocks)
    largest = sorted(alive_in(made.blocks, at), key=lambda block: -block.size_bytes)
    peak = made.table.steps[made.launches[at][0] if made.launches else 0]
    return MemoryUse(
        arena_bytes=made.memory.arena_bytes,
        lower_bound_bytes=made.memory.lower_bound_bytes,
        planner=made.memory.planner,
        peak_op=peak.name,
        peak_kind=peak.kind,
        peak_tensors=tuple((block.name, block.size_bytes) for block in largest),
        constants_bytes=len(made.constants),
    )


def linear_plan(made: CompiledKernels) -> LinearPlan:
    """The launches of a partition, and where in its arena things lie."""
    steps = tuple(
        PlannedStep(
            made.owners[number],
            launch.kernel,
            1,
            tuple(result.name for result in made.table.steps[number].results),
        )
        for number, launch in made.launches
    )
    return LinearPlan.of(steps, made.blocks, made.memory)


def works_of(made: CompiledKernels) -> list[Work | None]:
    """The work of each launch; an op's arithmetic is that of its launches that do not copy."""
    return [_work(made, made.ops[number], launch, number) for number, launch in made.launches]


def _work(made: CompiledKernels, ops: Sequence[Op], launch: Launch, number: int) -> Work:
    beside = made.table.steps[number].launches
    computing = [one for one in beside if not _copies(one)]
    macs = 0 if _copies(launch) else sum(_computing(op) for op in ops) // len(computing)
    places = [made.table.places[a] for a in dict.fromkeys(launch.arguments) if isinstance(a, int)]
    constants = sum(place.size_bytes for place in places if place.memory == "constants")
    first = next((t.dtype for t in ops[0].inputs if t is not None), DType.FLOAT32)
    sources = {(source.id, source.name) for op in ops for source in op.origin.sources}
    return Work(
        kernel=launch.kernel,
        kind=made.table.steps[number].kind,
        sources=tuple(sorted(sources)),
        tasks=1,
        macs=macs,
        outputs=sum(t.elements for op in ops for t in op.outputs) // len(beside),
        data_bytes=sum(place.size_bytes for place in places) - constants,
        constant_bytes=constants,
        unit=_UNITS.get(first, "fp32"),
        copies=_copies(launch),
    )


def _copies(launch: Launch) -> bool:
    return launch.kernel.startswith(_COPIES)


def _computing(op: Op) -> int:
    record = find(op.label)
    return 0 if record is None else record.cost(op).computing
