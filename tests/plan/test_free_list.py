from __future__ import annotations

import random

from circlet.plan.free_list import FreeList
from circlet.plan.memory import Block, best_plan, pairs_alive, plan_memory
from circlet.plan.validate import validate_plan


def lowest_by_hand(blocks: list[Block]) -> list[int]:
    """First fit by comparing each block with all that were placed."""
    offsets: dict[int, int] = {}
    for index in sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].size_bytes)):
        block, lowest = blocks[index], 0
        beside = [i for i in offsets if blocks[i].overlaps(block)]
        for start, end in sorted((offsets[i], offsets[i] + blocks[i].size_bytes) for i in beside):
            if lowest + block.size_bytes <= start:
                break
            lowest = max(lowest, -(-end // block.alignment) * block.alignment)
        offsets[index] = lowest
    return [offsets[index] for index in range(len(blocks))]


def random_blocks(count: int, seed: int) -> list[Block]:
    dice = random.Random(seed)
    births = [dice.randint(0, count) for _ in range(count)]
    sizes = [dice.choice((0, 1, 64, 100, 500, 4096)) for _ in range(count)]
    return [
        Block(f"b{i}", size, first, first + dice.choice((0, 1, 5, 50)), dice.choice((16, 64)))
        for i, (size, first) in enumerate(zip(sizes, births, strict=True))
    ]


def test_memory_that_is_given_back_is_taken_again_from_the_lowest_address() -> None:
    free = FreeList(1)
    places = [free.take(10, 1) for _ in range(5)]
    assert places == [0, 10, 20, 30, 40]
    free.give(10, 20)
    free.give(30, 40)
    free.give(20, 30)
    assert free.take(31, 1) == 50
    assert free.take(25, 1) == 10


def test_first_fit_places_blocks_as_comparing_all_of_them_does() -> None:
    for seed in range(20):
        blocks = random_blocks(40 + 60 * seed, seed)
        assert list(plan_memory(blocks, "first_fit").offsets) == lowest_by_hand(blocks)


def test_pairs_alive_together_are_counted() -> None:
    blocks = random_blocks(80, 1)
    pairs = sum(a.overlaps(b) for i, a in enumerate(blocks) for b in blocks[:i])
    assert pairs_alive(blocks) == pairs


def test_many_blocks_that_stay_alive_are_planned_and_checked() -> None:
    """20,000 blocks in holes of all sizes; by comparing pairs this would take minutes."""
    sizes = [64 * (1 + index * 7919 % 97) for index in range(20_000)]
    blocks = [
        Block(f"b{i}", size, i, i + 1 if i % 2 else 40_000 - i) for i, size in enumerate(sizes)
    ]
    plan = best_plan(blocks)
    validate_plan(blocks, plan)
    assert plan.lower_bound_bytes <= plan.arena_bytes < 1.2 * plan.lower_bound_bytes
