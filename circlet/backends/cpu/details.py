"""How a lowered partition runs, as plain data for reports."""

from __future__ import annotations

from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.cpu.emit import EmittedKernel, kernel_text
from circlet.backends.cpu.lowering import Kernel, KernelCall
from circlet.backends.cpu.memory_use import linear_plan
from circlet.backends.cpu.toolchain import KERNELS_DIR
from circlet.backends.detailed import KernelStep, PartitionDetails
from circlet.plan.partition import Partition


def details_of(partition: Partition, lowered: LoweredPartition) -> PartitionDetails:
    """The steps, the C, and the arena of a partition."""
    calls = [call for call in lowered.calls if call is not None]
    numbers = {kernel: i for i, kernel in enumerate(dict.fromkeys(c.kernel for c in calls))}
    users: dict[Kernel, dict[str, None]] = {kernel: {} for kernel in numbers}
    for call in calls:
        users[call.kernel][call.op.name] = None
    pairs = zip(lowered.steps, lowered.calls, strict=True)
    return PartitionDetails(
        steps=tuple(_step(op, name, call, numbers) for (op, name), call in pairs),
        codes=tuple(kernel_text(EmittedKernel(k, tuple(users[k]))) for k in numbers),
        headers={k.header: (KERNELS_DIR / k.header).read_text("utf-8") for k in numbers},
        lowerings=lowered.lowerings,
        blocks=linear_plan(lowered).blocks,
        arena_bytes=lowered.memory.arena_bytes,
        lower_bound_bytes=lowered.memory.lower_bound_bytes,
        planner=lowered.memory.planner,
        constants_bytes=len(lowered.constants),
    )


def _step(op: int, name: str, call: KernelCall | None, numbers: dict[Kernel, int]) -> KernelStep:
    if call is None:
        return KernelStep(op, name)
    arguments = ", ".join(map(str, call.kernel.arguments))
    return KernelStep(op, f"{name}({arguments})", call.tasks, numbers[call.kernel])
