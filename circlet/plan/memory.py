"""Memory planners: offsets in one arena for buffers with known lifetimes.

Each planner is a function from blocks to offsets. All are offline (every lifetime is known).
`best_plan` runs the suite and keeps the smallest arena; `circlet.plan.validate` checks the result
without sharing code with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_PERIODS = 64  # Blocks are looked up by stretches of steps: many together are slow to compare.
Extent = tuple[int, int, int]  # first byte, byte behind the last, block
Planner = Callable[[Sequence["Block"]], list[int]]


class Block(NamedTuple):
    """One buffer: `size_bytes` that are needed from step `first` to step `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int
    alignment: int = 64

    def overlaps(self, other: Block) -> bool:
        """Whether both are alive in some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of blocks in an arena.

    Attributes:
        planner: Name of the planner that made it.
        offsets: Byte offset of each block, in the order of the blocks.
        arena_bytes: End of the highest block.
        lower_bound_bytes: No plan can be smaller: the largest sum of simultaneously live blocks.
    """

    planner: str
    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int


def bump(blocks: Sequence[Block]) -> list[int]:
    """Every block gets memory of its own: the simplest plan, and the largest."""
    offsets: list[int] = []
    end = 0
    for block in blocks:
        offset = _align(end, block.alignment)
        offsets.append(offset)
        end = offset + block.size_bytes
    return offsets


def first_fit(blocks: Sequence[Block]) -> list[int]:
    """Blocks in order of birth, each at the lowest address free during its whole life."""
    order = sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].size_bytes))
    return _place(blocks, order)


def greedy_by_size(blocks: Sequence[Block]) -> list[int]:
    """Largest block first, each at the lowest address free during its whole life.

    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), 4.3.
    """
    order = sorted(range(len(blocks)), key=lambda i: (-blocks[i].size_bytes, blocks[i].first))
    return _place(blocks, order)


PLANNERS: dict[str, Planner] = {
    "greedy_by_size": greedy_by_size,
    "first_fit": first_fit,
    "bump": bump,
}


def plan_memory(blocks: Sequence[Block], planner: str) -> MemoryPlan:
    """The plan of one named planner; KeyError for an unknown name."""
    return _planned(blocks, planner, lower_bound(blocks))


def _planned(blocks: Sequence[Block], planner: str, least: int) -> MemoryPlan:
    offsets = PLANNERS[planner](blocks)
    ends = [offset + block.size_bytes for offset, block in zip(offsets, blocks, strict=True)]
    return MemoryPlan(planner, tuple(offsets), max(ends, default=0), least)


def best_plan(blocks: Sequence[Block]) -> MemoryPlan:
    """The smallest plan of the suite; the first of equals in the order of `PLANNERS`."""
    least, best = lower_bound(blocks), None
    for name in PLANNERS:
        plan = _planned(blocks, name, least)
        if best is None or plan.arena_bytes < best.arena_bytes:
            best = plan
        if best.arena_bytes == least:
            break
    assert best is not None
    return best


def lower_bound(blocks: Sequence[Block]) -> int:
    """Largest sum of sizes alive in one step."""
    changes: dict[int, int] = {}
    for block in blocks:
        changes[block.first] = changes.get(block.first, 0) + block.size_bytes
        changes[block.last + 1] = changes.get(block.last + 1, 0) - block.size_bytes
    live = peak = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def _place(blocks: Sequence[Block], order: Sequence[int]) -> list[int]:
    """Give each block in turn the lowest address that is free among those placed before it."""
    period = 1 + max((block.last for block in blocks), default=0) // _PERIODS
    placed: list[list[Extent]] = [[] for _ in range(_PERIODS + 1)]
    offsets = [0] * len(blocks)
    for index in order:
        block = blocks[index]
        periods = placed[block.first // period : block.last // period + 1]
        near = {extent for extents in periods for extent in extents}
        taken = sorted([extent for extent in near if blocks[extent[2]].overlaps(block)])
        offset = offsets[index] = _lowest_gap(taken, block)
        for extents in periods:
            extents.append((offset, offset + block.size_bytes, index))
    return offsets


def _lowest_gap(taken: Sequence[Extent], block: Block) -> int:
    """The lowest aligned address with room for a block between taken extents, which are sorted."""
    lowest = 0
    for start, end, _ in taken:
        if lowest + block.size_bytes <= start:
            break
        lowest = max(lowest, _align(end, block.alignment))
    return lowest


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
