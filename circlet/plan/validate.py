"""An independent validator of memory plans; it shares no code with the planners."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from circlet.errors import GraphError
from circlet.plan.memory import Block, MemoryPlan

Place = tuple[int, int]  # address, block


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

    Sweeps over steps. Those that are alive are kept in order of addresses, and are apart: one that
    is born is compared with its neighbours there alone.

    Raises:
        GraphError: Naming two blocks in conflict, or the block outside the arena.
    """
    if len(plan.offsets) != len(blocks):
        raise GraphError("a memory plan covers another number of blocks than asked")
    events: list[tuple[int, int, int]] = []
    for index, block in enumerate(blocks):
        _check_place(block, plan.offsets[index], plan.arena_bytes)
        if block.size_bytes:
            # What ends in a step is in the way of what is born in it.
            events += [(block.first, 0, index), (block.last, 1, index)]
    alive = _ByAddress()
    for _, ends, index in sorted(events):
        place = plan.offsets[index], index
        if ends:
            alive.remove(place)
        else:
            _check_apart(alive.around(place), blocks)
            alive.add(place)


class _ByAddress:
    """Places, sorted, in rows of which none is long, so that a change moves few of them."""

    _MOST = 512

    def __init__(self) -> None:
        self._rows: list[list[Place]] = []

    def add(self, place: Place) -> None:
        """Put a place where it belongs."""
        if not self._rows:
            self._rows.append([place])
            return
        number = self._row_of(place)
        row = self._rows[number]
        insort(row, place)
        if len(row) > self._MOST:
            middle = len(row) // 2
            self._rows[number : number + 1] = [row[:middle], row[middle:]]

    def remove(self, place: Place) -> None:
        """Take away a place that was put in."""
        number = self._row_of(place)
        row = self._rows[number]
        del row[bisect_left(row, place)]
        if not row:
            del self._rows[number]

    def around(self, place: Place) -> list[Place]:
        """A place between those next below and above it."""
        if not self._rows:
            return [place]
        number = self._row_of(place)
        row, after = self._rows[number], self._rows[number + 1 : number + 2]
        at = bisect_left(row, place)
        above = row[at : at + 1] or [rows[0] for rows in after]
        return [*row[max(0, at - 1) : at], place, *above]

    def _row_of(self, place: Place) -> int:
        """The last row that starts below a place, or the first one."""
        return max(0, bisect_right(self._rows, place, key=lambda row: row[0]) - 1)


def _check_place(block: Block, offset: int, arena_bytes: int) -> None:
    if offset < 0 or offset + block.size_bytes > arena_bytes:
        raise GraphError("a block lies outside the arena", where=block.name)
    if offset % block.alignment:
        raise GraphError("a block is misaligned", where=block.name)


def _check_apart(places: Sequence[Place], blocks: Sequence[Block]) -> None:
    for (start, low), (next_start, high) in pairwise(places):
        if start + blocks[low].size_bytes > next_start:
            raise GraphError(
                "two blocks that are alive together overlap in the arena",
                where=f"{blocks[min(low, high)].name} and {blocks[max(low, high)].name}",
            )
