"""Arrangements that put every tensor and every constant on pages of its own."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from circlet.backends.cpu.arrangement import Arrangement
from circlet.plan.memory import Block, MemoryPlan, lower_bound

PAGE = mmap.PAGESIZE


@dataclass
class Spread:
    """Gives each block its own pages with an unused page on both sides, and remembers them.

    Attributes:
        at_end: Whether blocks end where their pages do, or start where they start.
        tensors, resident, constants: Offset and size of each, in the order in which they were
            placed.
    """

    at_end: bool
    tensors: list[tuple[int, int]] = field(default_factory=list)
    resident: list[tuple[int, int]] = field(default_factory=list)
    constants: list[tuple[int, int]] = field(default_factory=list)

    @property
    def arrangement(self) -> Arrangement:
        """What the compiler takes."""
        return Arrangement(
            self._plan_arena,
            partial(self._place_behind, self.constants),
            partial(self._place_behind, self.resident),
            alignment=1,
        )

    def _plan_arena(self, blocks: Sequence[Block]) -> MemoryPlan:
        end = 0
        for block in blocks:
            start = self._place(end, block.size_bytes)
            self.tensors.append((start, block.size_bytes))
            end = start + block.size_bytes
        offsets = tuple(start for start, _ in self.tensors)
        return MemoryPlan("spread", offsets, end, lower_bound(blocks))

    def _place_behind(self, placed: list[tuple[int, int]], end: int, size_bytes: int) -> int:
        start = self._place(end, size_bytes)
        placed.append((start, size_bytes))
        return start

    def _place(self, end: int, size_bytes: int) -> int:
        first = pages(end) + PAGE
        return first + pages(size_bytes) - size_bytes if self.at_end else first


def pages(size_bytes: int) -> int:
    """A size rounded up to whole pages."""
    return -(-size_bytes // PAGE) * PAGE
