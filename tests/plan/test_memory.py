from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.errors import GraphError
from circlet.plan.memory import PLANNERS, Block, MemoryPlan, best_plan, lower_bound, plan_memory
from circlet.plan.validate import validate_plan

blocks_of_any_kind = st.lists(
    st.builds(
        lambda size, first, life, alignment: Block("b", size, first, first + life, alignment),
        st.integers(0, 500),
        st.integers(0, 12),
        st.integers(0, 6),
        st.sampled_from([1, 16, 64]),
    ),
    max_size=24,
)
by_planner = pytest.mark.parametrize("planner", PLANNERS)


def byte_blocks(*rows: tuple[int, int, int]) -> list[Block]:
    """Unaligned blocks of (size, first, last)."""
    return [Block(f"b{i}", size, first, last, 1) for i, (size, first, last) in enumerate(rows)]


def plan_of(blocks: Sequence[Block], offsets: Sequence[int], arena_bytes: int) -> MemoryPlan:
    return MemoryPlan("hand", tuple(offsets), arena_bytes, lower_bound(blocks))


@by_planner
@given(blocks=blocks_of_any_kind)
@settings(max_examples=60)
def test_every_plan_is_valid_and_not_below_the_bound(planner: str, blocks: list[Block]) -> None:
    plan = plan_memory(blocks, planner)
    validate_plan(blocks, plan)
    assert plan.arena_bytes >= plan.lower_bound_bytes


@given(blocks=blocks_of_any_kind)
@settings(max_examples=60)
def test_the_best_plan_is_the_smallest_of_the_suite(blocks: list[Block]) -> None:
    sizes = [plan_memory(blocks, name).arena_bytes for name in PLANNERS]
    assert best_plan(blocks).arena_bytes == min(sizes)


@by_planner
def test_no_blocks_need_no_memory(planner: str) -> None:
    assert plan_memory([], planner).arena_bytes == 0


@by_planner
def test_offsets_follow_the_order_of_the_blocks(planner: str) -> None:
    blocks = byte_blocks((10, 0, 3), (30, 0, 3), (20, 0, 3))
    plan = plan_memory(blocks, planner)
    extents = sorted(zip(plan.offsets, (10, 30, 20), strict=True))
    assert extents[0][0] == 0
    assert [start + size for start, size in extents[:-1]] == [start for start, _ in extents[1:]]


def test_bump_shares_nothing() -> None:
    assert plan_memory(byte_blocks((10, 0, 0), (10, 5, 5)), "bump").offsets == (0, 10)


@pytest.mark.parametrize("planner", ["first_fit", "greedy_by_size"])
def test_a_chain_alternates_between_two_places(planner: str) -> None:
    chain = byte_blocks(*((100, step, step + 1) for step in range(6)))
    plan = plan_memory(chain, planner)
    assert plan.arena_bytes == plan.lower_bound_bytes == 200


def test_greedy_by_size_places_the_largest_block_lowest() -> None:
    blocks = byte_blocks((10, 0, 1), (500, 1, 2), (30, 2, 3))
    assert plan_memory(blocks, "greedy_by_size").offsets == (500, 0, 500)


def test_first_fit_fills_the_lowest_gap_that_is_large_enough() -> None:
    blocks = byte_blocks((40, 0, 9), (20, 0, 1), (40, 0, 9), (30, 2, 3), (20, 2, 3))
    plan = plan_memory(blocks, "first_fit")
    assert plan.offsets == (0, 80, 40, 80, 110)


def test_alignment_is_respected_above_odd_sizes() -> None:
    blocks = [Block("odd", 65, 0, 1, 1), Block("aligned", 64, 0, 1, 64)]
    assert plan_memory(blocks, "first_fit").offsets == (0, 128)


@pytest.mark.parametrize(
    ("rows", "bound"),
    [
        ([], 0),
        ([(7, 0, 0)], 7),
        ([(7, 0, 0), (9, 1, 1)], 9),
        ([(7, 0, 1), (9, 1, 1)], 16),
        ([(5, 0, 4), (6, 1, 2), (7, 3, 4), (8, 2, 3)], 20),
        ([(5, 2, 2), (5, 0, 9), (0, 0, 9)], 10),
    ],
)
def test_the_lower_bound_is_the_largest_live_sum(
    rows: list[tuple[int, int, int]], bound: int
) -> None:
    assert lower_bound(byte_blocks(*rows)) == bound


@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(0, 2)), max_size=5)
)
@settings(max_examples=40)
def test_no_order_of_placing_goes_below_the_lower_bound(rows: list[tuple[int, int, int]]) -> None:
    blocks = byte_blocks(*((size, first, first + life) for size, first, life in rows))
    arenas = [
        plan_memory([blocks[i] for i in order], "first_fit").arena_bytes
        for order in permutations(range(len(blocks)))
    ]
    assert min(arenas) >= lower_bound(blocks)


def test_many_blocks_are_planned_in_little_time() -> None:
    blocks = [Block(f"b{i}", 100 + i % 7, i, i + 2) for i in range(5000)]
    assert best_plan(blocks).arena_bytes < 1000


def test_an_overlap_is_found_and_both_blocks_are_named() -> None:
    blocks = byte_blocks((10, 0, 2), (10, 5, 9), (10, 2, 4))
    with pytest.raises(GraphError, match="b0 and b2"):
        validate_plan(blocks, plan_of(blocks, [0, 0, 9], 19))


def test_an_overlap_across_a_block_between_is_found() -> None:
    blocks = byte_blocks((100, 0, 2), (10, 0, 2), (10, 1, 2))
    with pytest.raises(GraphError, match="overlap"):
        validate_plan(blocks, plan_of(blocks, [0, 100, 50], 110))


def test_blocks_that_never_meet_may_share_an_address() -> None:
    blocks = byte_blocks((10, 0, 1), (10, 2, 3))
    validate_plan(blocks, plan_of(blocks, [0, 0], 10))


@pytest.mark.parametrize(("offset", "arena_bytes"), [(-16, 64), (16, 64), (64, 64)])
def test_a_block_outside_the_arena_is_found(offset: int, arena_bytes: int) -> None:
    blocks = [Block("weights", 64, 0, 1, 16)]
    with pytest.raises(GraphError, match=r"outside the arena[\s\S]*weights"):
        validate_plan(blocks, plan_of(blocks, [offset], arena_bytes))


def test_a_misaligned_block_is_found() -> None:
    blocks = [Block("weights", 64, 0, 1)]
    with pytest.raises(GraphError, match=r"misaligned[\s\S]*weights"):
        validate_plan(blocks, plan_of(blocks, [32], 96))


def test_a_plan_for_other_blocks_is_found() -> None:
    with pytest.raises(GraphError, match="another number of blocks"):
        validate_plan(byte_blocks((1, 0, 0)), plan_of([], [], 0))
