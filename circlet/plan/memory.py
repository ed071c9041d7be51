"""Memory planners: offsets in one arena for buffers with known lifetimes.

Each planner is a function from blocks to offsets. All are offline (every lifetime is known).
`best_plan` runs the suite and keeps the smallest arena; `circlet.plan.validate` checks the result
without sharing code with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Extents = npt.NDArray[np.int64]
Planner = Callable[[Sequence["Block"]], list[int]]


@dataclass(frozen=True)
class Block:
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
    offsets = PLANNERS[planner](blocks)
    ends = [offset + block.size_bytes for offset, block in zip(offsets, blocks, strict=True)]
    return MemoryPlan(planner, tuple(offsets), max(ends, default=0), lower_bound(blocks))


def best_plan(blocks: Sequence[Block]) -> MemoryPlan:
    """The smallest plan of the suite; the first of equals in the order of `PLANNERS`."""
    return min((plan_memory(blocks, name) for name in PLANNERS), key=lambda plan: plan.arena_bytes)


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
    placed = np.zeros((4, len(blocks)), np.int64)
    first, last, start, end = placed
    offsets = [0] * len(blocks)
    for count, index in enumerate(order):
        block = blocks[index]
        alive = np.flatnonzero((first[:count] <= block.last) & (last[:count] >= block.first))
        offset = offsets[index] = _lowest_gap(start[alive], end[alive], block)
        placed[:, count] = block.first, block.last, offset, offset + block.size_bytes
    return offsets


def _lowest_gap(start: Extents, end: Extents, block: Block) -> int:
    """The lowest aligned address with room for a block between taken extents."""
    order = np.argsort(start, kind="stable")
    ends = -(-end[order] // block.alignment) * block.alignment
    candidates = np.concatenate(([0], np.maximum.accumulate(ends)))
    fits = candidates[:-1] + block.size_bytes <= start[order]
    return int(candidates[np.argmax(fits) if fits.any() else -1])


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
