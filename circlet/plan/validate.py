"""An independent validator of memory plans; it shares no code with the planners."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from circlet.errors import GraphError
from circlet.plan.memory import Block, MemoryPlan


class Alias(NamedTuple):
    """A tensor in a block that it shares.

    Attributes:
        name: The tensor's.
        block: Which block.
        place: Equal for tensors whose elements of equal index are the same bytes.
        first, last: The first and the last step that touches it.
        family: Equal for tensors that are parts of one another.
    """

    name: str
    block: int
    place: tuple[int, ...]
    first: int
    last: int
    family: int


def validate_aliases(aliases: Sequence[Alias]) -> None:
    """Check that families that share a block use it one after the other.

    One may follow in the very step in which the other ends where that hands on a place: a step
    writes each element where it read that element, and reads nothing else of what it overwrites.

    Raises:
        GraphError: Naming two tensors that are in each other's way.
    """

    def where(alias: Alias) -> tuple[int, int]:
        return alias.block, alias.family

    families = [list(group) for _, group in groupby(sorted(aliases, key=where), key=where)]
    families.sort(key=lambda members: (members[0].block, min(t.first for t in members)))
    for before, after in pairwise(families):
        if before[0].block == after[0].block:
            _check_turn(before, after)


def _check_turn(before: Sequence[Alias], after: Sequence[Alias]) -> None:
    end, start = max(before, key=lambda t: t.last), min(after, key=lambda t: t.first)
    handed_on = {t.place for t in before if t.last == end.last} | {
        t.place for t in after if t.first == start.first
    }
    if end.last < start.first or (end.last == start.first and len(handed_on) == 1):
        return
    raise GraphError(
        "a result is written over what is still needed", where=f"{end.name} and {start.name}"
    )


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
