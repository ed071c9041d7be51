"""Moves large blocks of a memory plan apart by cache lines, so that kernels do not trip over them.

A processor that has stores under way compares the low address bits of each load with theirs, and
holds the load back where these are equal. A kernel that reads one image and writes another meets
that at every pixel where the images lie a multiple of a pixel apart: depthwise convolutions of 64
channels take a quarter longer. One line of difference is enough, as pixels of 32 channels and more
are whole pairs of lines; a second bit tells three images from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.plan.memory import (
    MOST_PAIRS,
    Block,
    MemoryPlan,
    Placed,
    align,
    best_plan,
    pairs_alive,
)

_LINE_BYTES = 64
_LARGE_BYTES = 1 << 14
_SHARE = 256  # of the arena: it may grow by one part in so many
_CLASHES = (2, 0, 1, 0)  # by the lines between two blocks: none, an odd number, two


def staggered_plan(blocks: Sequence[Block]) -> MemoryPlan:
    """The smallest plan of the suite, large blocks moved apart where that costs little."""
    plan = best_plan(blocks)
    if plan.arena_bytes < _SHARE * _LINE_BYTES or pairs_alive(blocks) > MOST_PAIRS:
        return plan
    moved = _staggered(blocks, plan)
    return moved if moved.arena_bytes <= plan.arena_bytes + plan.arena_bytes // _SHARE else plan


def _staggered(blocks: Sequence[Block], plan: MemoryPlan) -> MemoryPlan:
    """The blocks in the order of their addresses, each as low as those below it allow, and apart.

    No block gets below one that it was above, so that each moves by what those below it moved.
    """
    placed, offsets = Placed(blocks), list(plan.offsets)
    for index in sorted(range(len(blocks)), key=lambda i: (plan.offsets[i], i)):
        block = blocks[index]
        if not block.size_bytes:
            continue
        below = placed.beside(index)
        lowest = align(max((end for _, end, _ in below), default=0), block.alignment)
        if block.size_bytes >= _LARGE_BYTES and block.alignment <= _LINE_BYTES:
            lines = [at // _LINE_BYTES for at, end, _ in below if end - at >= _LARGE_BYTES]
            lowest += _LINE_BYTES * _shift(lowest // _LINE_BYTES, lines)
        offsets[index] = lowest
        placed.add(index, lowest)
    ends = [offset + block.size_bytes for offset, block in zip(offsets, blocks, strict=True)]
    return replace(plan, offsets=tuple(offsets), arena_bytes=max(ends, default=0))


def _shift(line: int, others: Sequence[int]) -> int:
    """By how many lines a block clashes least with those that are alive with it."""

    def clashes(shift: int) -> int:
        return sum(_CLASHES[(line + shift - other) % len(_CLASHES)] for other in others)

    return min(range(len(_CLASHES)), key=clashes)
