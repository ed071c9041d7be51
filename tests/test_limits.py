"""The budget of memory that one network has."""

from __future__ import annotations

import pytest

from circlet.errors import LimitError
from circlet.limits import Limits, MemoryBudget

pytestmark = pytest.mark.smoke


def test_a_budget_grows_with_the_file() -> None:
    limits = Limits(memory_bytes=1000, memory_per_file_byte=8)
    assert [limits.memory_budget(size).allowed for size in (0, 100)] == [1000, 1800]


def test_an_error_says_who_asked_for_how_much_and_what_to_raise() -> None:
    budget = MemoryBudget(1000)
    budget.charge(600, "first", "its array")
    with pytest.raises(
        LimitError, match=r"where: second\n.*its array: 401 .* 1000 are 600.*\n.*memo"
    ):
        budget.charge(401, "second", "its array")
    budget.charge(400, "third", "its array")
    assert budget.left == 0


def test_what_is_given_back_may_be_taken_again() -> None:
    budget = MemoryBudget(1000)
    budget.charge(600, "first", "its array")
    budget.release(600)
    budget.charge(1000, "second", "its array")


def test_packed_constants_are_free_up_to_the_size_of_the_file() -> None:
    budget = Limits(memory_bytes=1000, memory_per_file_byte=0).memory_budget(500)
    budget.charge_packed(400, "w")
    assert (budget.taken, budget.unpacked) == (0, 100)
    budget.charge_packed(300, "w")
    assert (budget.taken, budget.unpacked) == (400, 0)


def test_a_copy_is_charged_by_itself() -> None:
    budget = Limits().memory_budget(500)
    budget.charge_packed(100, "w")
    copy = budget.copy()
    copy.charge(10, "x", "its array")
    assert (budget.taken, copy.taken, copy.unpacked) == (0, 10, 400)


def test_a_part_of_a_network_has_what_is_left() -> None:
    part = Limits(ops=7).with_memory(123)
    assert (part.memory_budget(1 << 20).allowed, part.ops) == (123, 7)
