"""Large blocks that are alive together do not start at the same phase of a cache's lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.plan.memory import Block, MemoryPlan, best_plan
from circlet.plan.stagger import staggered_plan
from circlet.plan.validate import validate_plan

LARGE = 1 << 16

blocks_of_any_kind = st.lists(
    st.builds(
        lambda size, first, life, alignment: Block("b", size, first, first + life, alignment),
        st.integers(0, 1 << 17),
        st.integers(0, 12),
        st.integers(0, 6),
        st.sampled_from([1, 64, 4096]),
    ),
    max_size=24,
)


def _chain(count: int, size: int = LARGE) -> list[Block]:
    """Each block is made of the one before, which ends with it."""
    return [Block(f"b{step}", size, step, step + 1) for step in range(count)]


def _lines(plan: MemoryPlan) -> list[int]:
    assert all(offset % 64 == 0 for offset in plan.offsets)
    return [offset // 64 for offset in plan.offsets]


def _checked(blocks: Sequence[Block]) -> MemoryPlan:
    plan = staggered_plan(blocks)
    validate_plan(blocks, plan)
    return plan


def test_what_a_step_reads_and_writes_is_an_odd_number_of_lines_apart() -> None:
    blocks = _chain(7)
    assert best_plan(blocks).offsets == (0, LARGE, 0, LARGE, 0, LARGE, 0)
    assert all((a - b) % 2 for a, b in pairwise(_lines(_checked(blocks))))


def test_three_that_are_alive_together_are_told_apart() -> None:
    blocks = [Block(name, LARGE, 0, 1) for name in "abc"]
    assert len({line % 4 for line in _lines(_checked(blocks))}) == 3


def test_small_blocks_and_small_arenas_stay_where_they_are() -> None:
    for blocks in (_chain(7, 1 << 12), _chain(2, 1 << 12), [*_chain(2, 1 << 14)][:1]):
        assert _checked(blocks) == best_plan(blocks)


def test_a_block_above_others_moves_with_them_and_nothing_is_lost_by_it() -> None:
    below = [Block("left", LARGE, 0, 2), Block("right", LARGE, 0, 2)]
    above = Block("above", 100, 1, 1, 64)
    plan = _checked([*below, above])
    assert plan.arena_bytes - best_plan([*below, above]).arena_bytes == 64


@given(blocks=blocks_of_any_kind)
@settings(max_examples=60)
def test_every_plan_is_valid_and_grows_by_next_to_nothing(blocks: list[Block]) -> None:
    best = best_plan(blocks)
    assert _checked(blocks).arena_bytes <= best.arena_bytes * (1 + 1 / 256)
