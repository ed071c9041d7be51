"""An independent judge of memory plans; it shares no code with the planners."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from circlet.errors import GraphError
from circlet.plan.memory import Block, MemoryPlan


def validate_plan(blocks: Sequence[Block], plan: MemoryPlan) -> None:
    """Check that blocks alive together are apart, aligned and inside the arena.

    Sweeps over steps and, within a step, over addresses; cost grows with the number of blocks
    alive together, not with the square of all blocks.

    Raises:
        GraphError: Naming the first two blocks in conflict, or the block outside the arena.
    """
    if len(plan.offsets) != len(blocks):
        raise GraphError("a memory plan covers another number of blocks than asked")
    births: dict[int, list[int]] = {}
    for index, block in enumerate(blocks):
        _check_place(block, plan.offsets[index], plan.arena_bytes)
        births.setdefault(block.first, []).append(index)
    alive: set[int] = set()
    for step in sorted(births):
        alive = {i for i in alive if blocks[i].last >= step} | set(births[step])
        _check_apart(sorted((plan.offsets[i], i) for i in alive if blocks[i].size_bytes), blocks)


def _check_place(block: Block, offset: int, arena_bytes: int) -> None:
    if offset < 0 or offset + block.size_bytes > arena_bytes:
        raise GraphError("a block lies outside the arena", where=block.name)
    if offset % block.alignment:
        raise GraphError("a block is misaligned", where=block.name)


def _check_apart(places: Sequence[tuple[int, int]], blocks: Sequence[Block]) -> None:
    for (start, low), (next_start, high) in pairwise(places):
        if start + blocks[low].size_bytes > next_start:
            raise GraphError(
                "two blocks that are alive together overlap in the arena",
                where=f"{blocks[low].name} and {blocks[high].name}",
            )
