"""What a backend may offer besides its contract: steps, their work and time, peaks of the machine.

A profile asks for these where a backend has them. Where it has none, observers tell the time of
operators, and partitions that cannot be observed are timed whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from circlet.plan.memory import Block, MemoryPlan
from circlet.plan.partition import Partition
from circlet.target.targets import Target

LEVELS_BYTES = tuple(16 << 10 + step for step in range(13))
"""Working sets at which bandwidth is measured: from what fits L1 to what fits no cache."""

_OF_SINGLE_CHANNELS = frozenset({"DEPTHWISE_CONV_2D"})

Steps = Sequence[tuple[int, str]]
"""For each step of a plan the position of its op in the partition, and the kernel's name."""


@dataclass(frozen=True)
class Work:
    """What one kernel call computes.

    Attributes:
        kernel: The C function and the constants that specialise it.
        kind: The operator's kind.
        sources: Position and name of the operators of the file that it descends from.
        tasks: Pieces that threads share.
        macs: Multiply-accumulates; those of the operator where one call computes it.
        outputs: Elements that the operator writes.
        data_bytes: Activations read and written, each once.
        constant_bytes: Weights and tables, as they are packed.
        unit: The arithmetic: "fp32", "int8" or "int16".
        made: The share of the multiply-accumulates that the kernel makes.
        copies: Whether it only moves data: copies, borders.
    """

    kernel: str
    kind: str
    sources: tuple[tuple[int, str], ...]
    tasks: int
    macs: int
    outputs: int
    data_bytes: int
    constant_bytes: int
    unit: str
    made: float = 1.0
    copies: bool = False

    @property
    def bytes(self) -> int:
        """All bytes that must move."""
        return self.data_bytes + self.constant_bytes


@dataclass(frozen=True)
class Peaks:
    """What one core does at most.

    Attributes:
        fp32_gflops: Fused multiply-adds, two operations each.
        int8_gops: Four-way dot products of bytes into int32: by tiles (AMX), matrices (i8mm) or
            vectors (VNNI, sdot) where the CPU has them, else as two products of int16.
        int8_vector_gops: The same by vectors, which is all that products of single channels
            (depthwise convolutions) can use.
        int16_gops: Two-way products of int16 into int32.
        requantised_gops: Accumulators made into int8 outputs.
        read_gbs, copy_gbs: Bandwidth at each size of `LEVELS_BYTES`; a copy counts both ways.
    """

    fp32_gflops: float
    int8_gops: float
    int8_vector_gops: float
    int16_gops: float
    requantised_gops: float
    read_gbs: tuple[float, ...]
    copy_gbs: tuple[float, ...]

    def gops(self, work: Work) -> float:
        """The peak of the arithmetic that a kernel call does."""
        if work.unit == "int8":
            return self.int8_vector_gops if work.kind in _OF_SINGLE_CHANNELS else self.int8_gops
        return self.fp32_gflops if work.unit == "fp32" else self.int16_gops

    def bandwidth(self, working_set: int) -> float:
        """GB/s that no working set of so many bytes exceeds: the best of all not much smaller."""
        rates = zip(LEVELS_BYTES, self.read_gbs, self.copy_gbs, strict=True)
        best = [max(read, copy) for size, read, copy in rates if 2 * size > working_set]
        return max(best, default=max(self.read_gbs[-1], self.copy_gbs[-1]))

    def as_json(self) -> dict[str, object]:
        """Plain numbers, rounded."""
        return json.loads(json.dumps(asdict(self)), parse_float=lambda x: round(float(x), 1))


@dataclass(frozen=True)
class PlannedStep:
    """One step of a partition.

    Attributes:
        op: The position of its operator in the partition.
        kernel: What runs.
        tasks: How many independent pieces of it there are.
        writes: Names of the tensors that it writes.
    """

    op: int
    kernel: str
    tasks: int
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedBlock:
    """Memory of the arena that is taken from step `first` to step `last`, both included."""

    name: str
    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class LinearPlan:
    """The steps of a partition in order, and the memory that they share."""

    steps: tuple[PlannedStep, ...]
    blocks: tuple[PlannedBlock, ...]
    arena_bytes: int
    planner: str

    @classmethod
    def of(
        cls, steps: tuple[PlannedStep, ...], blocks: Sequence[Block], memory: MemoryPlan
    ) -> LinearPlan:
        """Steps over the blocks that a memory plan gave their places."""
        placed = tuple(
            PlannedBlock(block.name, offset, block.size_bytes, block.first, block.last)
            for block, offset in zip(blocks, memory.offsets, strict=True)
        )
        return cls(steps, placed, memory.arena_bytes, memory.planner)


@runtime_checkable
class ShowsPlan(Protocol):
    """A partition compiler that can tell its steps; others run operators one by one."""

    def linear_plan(self, partition: Partition) -> LinearPlan:
        """The plan of a partition that `optimize` gave, for the first target."""
        ...


@runtime_checkable
class TimesSteps(Protocol):
    """A runner whose runs write down what each step took."""

    def profile(self, enabled: bool = True) -> np.ndarray:
        """Nanoseconds of each step (uint64), written anew by every run until it is disabled."""
        ...


@runtime_checkable
class TimesThreads(Protocol):
    """A runner whose runs write down what each thread worked on each step."""

    def profile_threads(self, enabled: bool = True) -> np.ndarray:
        """Nanoseconds of work (uint64), steps by threads, written anew by every run."""
        ...


@runtime_checkable
class KnowsWork(Protocol):
    """A compiler that tells what the steps of a partition compute."""

    def works(
        self, partition: Partition, steps: Steps, step_us: Sequence[float]
    ) -> list[Work | None]:
        """The work of each step that took so many microseconds; None for a jump."""
        ...


@runtime_checkable
class KnowsPeaks(Protocol):
    """A backend that measures what its kernels could do at most on this machine."""

    def peaks(self, target: Target) -> Peaks:
        """The peaks of a core through code for a target; measured once for a process.

        Raises:
            CompilerMissingError: What measures cannot be compiled.
        """
        ...
