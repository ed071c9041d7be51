"""Memory planners: offsets in one arena for buffers with known lifetimes.

Each planner is a function from blocks to offsets. All are offline (every lifetime is known).
`best_plan` runs the suite and keeps the smallest arena; `circlet.plan.validate` checks the result
without sharing code with this module.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol, TypeVar

from circlet.plan.free_list import FreeList

# Pairs of blocks that are alive together: with more, blocks are placed by birth alone, as each
# is then compared with none that is alive no more.
MOST_PAIRS = 1 << 21
Life = TypeVar("Life", bound="Living")
Extent = tuple[int, int, int]  # first byte, byte behind the last, block
Planner = Callable[[Sequence["Block"]], list[int]]


class Living(Protocol):
    """Memory that is needed from one step to another, both included."""

    @property
    def size_bytes(self) -> int:
        """How much."""
        ...

    @property
    def first(self) -> int:
        """The first of the steps."""
        ...

    @property
    def last(self) -> int:
        """The last of the steps."""
        ...


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
        offset = align(end, block.alignment)
        offsets.append(offset)
        end = offset + block.size_bytes
    return offsets


def first_fit(blocks: Sequence[Block]) -> list[int]:
    """Blocks in order of birth, each at the lowest address free during its whole life.

    What is free at its birth is free to the end, so a list of what is free now is enough.
    """
    order = sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].size_bytes))
    free = FreeList(min((block.alignment for block in blocks), default=1))
    offsets, ends = [0] * len(blocks), list[tuple[int, int]]()
    for index in order:
        block = blocks[index]
        while ends and ends[0][0] < block.first:
            gone = heappop(ends)[1]
            free.give(offsets[gone], offsets[gone] + blocks[gone].size_bytes)
        if block.size_bytes:
            offsets[index] = free.take(block.size_bytes, block.alignment)
            heappush(ends, (block.last, index))
    return offsets


def greedy_by_size(blocks: Sequence[Block]) -> list[int]:
    """Largest block first, each at the lowest address free during its whole life.

    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), 4.3.
    """
    order = sorted(range(len(blocks)), key=lambda i: (-blocks[i].size_bytes, blocks[i].first))
    placed, offsets = Placed(blocks), [0] * len(blocks)
    for index in order:
        offset = offsets[index] = _lowest_gap(placed.beside(index), blocks[index])
        placed.add(index, offset)
    return offsets


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
    """The smallest plan of the suite; the first of equals in the order of `PLANNERS`.

    Where more blocks are alive together than can be compared, the suite is `first_fit` alone.
    """
    least, best = lower_bound(blocks), None
    for name in PLANNERS if pairs_alive(blocks) <= MOST_PAIRS else ("first_fit",):
        plan = _planned(blocks, name, least)
        if best is None or plan.arena_bytes < best.arena_bytes:
            best = plan
        if best.arena_bytes == least:
            break
    assert best is not None
    return best


def lower_bound(blocks: Sequence[Block]) -> int:
    """Largest sum of sizes alive in one step: no plan can be smaller."""
    return peak_of(blocks)[1]


def peak_of(blocks: Sequence[Living]) -> tuple[int, int]:
    """The first step in which most bytes are alive, and how many.

    A peak begins where a block is born, so only steps are looked at in which something changes.
    """
    changes: dict[int, int] = {}
    for block in blocks:
        changes[block.first] = changes.get(block.first, 0) + block.size_bytes
        changes[block.last + 1] = changes.get(block.last + 1, 0) - block.size_bytes
    live = most = at = 0
    for step in sorted(changes):
        live += changes[step]
        if live > most:
            most, at = live, step
    return at, most


def alive_in(blocks: Iterable[Life], step: int) -> list[Life]:
    """The blocks that are alive in a step."""
    return [block for block in blocks if block.first <= step <= block.last]


def pairs_alive(blocks: Sequence[Block]) -> int:
    """How many pairs of blocks are alive together in some step."""
    ends = sorted(block.last for block in blocks)
    births = sorted(block.first for block in blocks)
    return sum(born - bisect_left(ends, first) for born, first in enumerate(births))


class Placed:
    """Blocks that have their place, by how long they live and from when."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._extents: dict[int, Extent] = {}
        self._births: dict[int, list[tuple[int, int]]] = {}

    def add(self, index: int, offset: int) -> None:
        """Have a block lie at an offset."""
        block = self._blocks[index]
        self._extents[index] = offset, offset + block.size_bytes, index
        lives = (block.last - block.first).bit_length()
        insort(self._births.setdefault(lives, []), (block.first, index))

    def beside(self, index: int) -> list[Extent]:
        """The extents of those that are alive together with a block, sorted."""
        return sorted(self._extents[other] for other in self._alive_with(self._blocks[index]))

    def _alive_with(self, block: Block) -> Iterator[int]:
        for lives, births in self._births.items():
            start = bisect_right(births, (block.first - (1 << lives), len(self._blocks)))
            for _, other in births[start : bisect_right(births, (block.last, len(self._blocks)))]:
                if self._blocks[other].last >= block.first:
                    yield other


def _lowest_gap(taken: Sequence[Extent], block: Block) -> int:
    """The lowest aligned address with room for a block between taken extents, which are sorted."""
    lowest = 0
    for start, end, _ in taken:
        if lowest + block.size_bytes <= start:
            break
        lowest = max(lowest, align(end, block.alignment))
    return lowest


def align(value: int, alignment: int) -> int:
    """The smallest multiple of an alignment that is not below a value."""
    return -(-value // alignment) * alignment
