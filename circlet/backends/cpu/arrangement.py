"""How the memory of a partition is laid out: close together, or apart to find what strays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.plan.memory import Block, MemoryPlan
from circlet.plan.stagger import staggered_plan


def next_line(end: int, size_bytes: int) -> int:
    """The first cache line behind what is placed already."""
    return align(end, LINE_BYTES)


@dataclass(frozen=True)
class Arrangement:
    """Where the blocks of the arena and the constants go.

    Attributes:
        plan_arena: From blocks to their offsets.
        place_constant: From the end of the constants so far, and a size, to an offset.
        place_resident: The same for what is made once and stays.
        alignment: What the offsets of blocks must be multiples of.
    """

    plan_arena: Callable[[Sequence[Block]], MemoryPlan] = staggered_plan
    place_constant: Callable[[int, int], int] = next_line
    place_resident: Callable[[int, int], int] = next_line
    alignment: int = LINE_BYTES


COMPACT = Arrangement()
