"""Where the buffers of a partition lie: in an arena that runs share out, or resident beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from circlet.backends.cpu.alias_sets import aliases_of
from circlet.backends.cpu.arrangement import Arrangement
from circlet.backends.cpu.control import Goto
from circlet.backends.cpu.loops import Loops
from circlet.backends.cpu.lowered import Lowered
from circlet.backends.cpu.lowering import KernelCall, TensorRef
from circlet.backends.cpu.storage import RESIDENT, Buffer
from circlet.ir import Tensor
from circlet.limits import MemoryBudget
from circlet.plan.memory import Block, MemoryPlan
from circlet.plan.validate import validate_aliases, validate_plan

_NO_BLOCK = Block("", 0, 0, 0)


class Arena(NamedTuple):
    """Places of all buffers that are not the caller's.

    Attributes:
        memory: The plan of the arena.
        offsets: Where each buffer starts, in the arena or in resident memory.
        blocks: What the arena holds, and in which steps.
        resident: What is made once and stays: name and bytes.
        resident_bytes: What that takes.
    """

    memory: MemoryPlan
    offsets: Mapping[Buffer, int]
    blocks: tuple[Block, ...]
    resident: tuple[tuple[str, int], ...]
    resident_bytes: int


def plan_arena(lowered: Lowered, arrangement: Arrangement, budget: MemoryBudget) -> Arena:
    """Place all buffers, and have the places checked.

    Raises:
        LimitError: The budget has not enough left.
    """
    tensors = [_tensors(step) for step in lowered.steps]
    lives = _lives(lowered, tensors)
    align = arrangement.alignment
    buffers = [buffer for buffer in lives if buffer.space == "arena"]
    blocks = [Block(b.name, b.size_bytes, *lives[b], align) for b in buffers]
    memory = arrangement.plan_arena(blocks)
    largest = max(blocks, key=lambda block: block.size_bytes, default=_NO_BLOCK)
    budget.charge(memory.arena_bytes, largest.name, "working memory, most of it here")
    validate_plan(blocks, memory)
    validate_aliases(aliases_of(lowered.ops, lowered.storage.allocations, tensors))
    kept = [buffer for buffer in lives if buffer.space == RESIDENT]
    places, resident_bytes = _behind_each_other(kept, arrangement, budget)
    return Arena(
        memory,
        dict(zip(buffers, memory.offsets, strict=True)) | places,
        tuple(blocks),
        tuple((buffer.name, buffer.size_bytes) for buffer in kept),
        resident_bytes,
    )


def _lives(lowered: Lowered, tensors: Sequence[Sequence[Tensor]]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last step in which each buffer is needed."""
    touched: dict[Buffer, list[int]] = {}
    for index, seen in enumerate(tensors):
        for tensor in seen:
            touched.setdefault(lowered.storage.allocations[tensor].buffer, []).append(index)
    loops = Loops(lowered.loops())
    return {
        buffer: (steps[0], loops.end_of(steps[0], steps[-1])) for buffer, steps in touched.items()
    }


def _behind_each_other(
    buffers: Sequence[Buffer], arrangement: Arrangement, budget: MemoryBudget
) -> tuple[dict[Buffer, int], int]:
    """Places of buffers that all live for ever, and where the last one ends."""
    end, places = 0, dict[Buffer, int]()
    for buffer in buffers:
        start = places[buffer] = arrangement.place_resident(end, buffer.size_bytes)
        budget.charge(start - end + buffer.size_bytes, buffer.name, "what is computed once")
        end = start + buffer.size_bytes
    return places, end


def _tensors(step: KernelCall | Goto) -> list[Tensor]:
    """The tensors whose memory a step touches."""
    if isinstance(step, KernelCall):
        return [ref.tensor for ref in step.operands if isinstance(ref, TensorRef)]
    return [step.unless] if step.unless is not None and not step.unless.is_constant else []
