"""What a backend may offer besides its contract: how its partitions run, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from circlet.backends.profiled import PlannedBlock
from circlet.plan.partition import Partition


@dataclass(frozen=True)
class KernelStep:
    """A step of a plan.

    Attributes:
        op: The position of its op in the partition.
        kernel: The kernel with the constants that specialise it, or what else the step does.
        tasks: The pieces that threads share.
        code: The position of its C in the details' `codes`; -1 where there is none.
    """

    op: int
    kernel: str
    tasks: int = 1
    code: int = -1


@dataclass(frozen=True, kw_only=True)
class PartitionDetails:
    """How a partition runs, for reports.

    Attributes:
        steps: In the order in which they run.
        codes: The generated C of each distinct kernel.
        headers: The files, by name, that it includes.
        lowerings: For each op the name of the way that it was lowered.
        blocks: What the arena holds.
    """

    steps: tuple[KernelStep, ...]
    codes: tuple[str, ...]
    headers: Mapping[str, str]
    lowerings: tuple[str, ...]
    blocks: tuple[PlannedBlock, ...]
    arena_bytes: int
    lower_bound_bytes: int
    planner: str
    constants_bytes: int


@runtime_checkable
class KnowsDetails(Protocol):
    """A compiler that tells how the partitions that it made run."""

    def details(self, partition: Partition) -> PartitionDetails:
        """How a partition that `optimize` gave runs on the first target."""
        ...
