"""How many turns a loop takes at most, told from its graphs."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder, constant
from circlet.plan.sizes import Size, SizeTable
from circlet.plan.trip_counts import most_turns
from tests.plan.loops import Ends, compared, loop, number


def counter(start: int, dtype: type = np.int64) -> Tensor:
    return constant("i", np.array(start, dtype))


def turns(condition: Ends, start: int = 0, step: int = 1) -> int | None:
    """Of a loop that adds a step to a counter and leaves an end as it is."""

    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        return [b.op("ADD", [variables[0], number(b, step)]), variables[1]]

    given = [counter(start), constant("end", np.array(20, np.int64))]
    return most_turns(loop(given, condition, turn), SizeTable())


@pytest.mark.parametrize(
    ("kind", "start", "step", "wanted"),
    [
        ("LESS", 0, 1, 10),
        ("LESS", 3, 2, 4),
        ("LESS_EQUAL", 0, 1, 11),
        ("LESS", 12, 1, 0),
        ("LESS", 0, 0, None),
        ("LESS", 0, -1, None),
        ("GREATER", 0, 1, None),
        ("EQUAL", 0, 1, None),
    ],
)
def test_a_counter_reaches_its_end(kind: str, start: int, step: int, wanted: int | None) -> None:
    assert turns(compared(kind, 0, 10), start, step) == wanted


def test_conditions_are_taken_apart() -> None:
    def both(b: Builder, variables: list[Tensor]) -> Tensor:
        end = b.op("GREATER", [variables[1], variables[0]], dtype=DType.BOOL)
        other = b.op("GREATER_EQUAL", [variables[0], number(b, 7)], dtype=DType.BOOL)
        return b.op("LOGICAL_AND", [end, b.op("LOGICAL_NOT", [other])])

    def either(b: Builder, variables: list[Tensor]) -> Tensor:
        some = [compared("LESS", 0, end)(b, variables) for end in (5, 9)]
        return b.op("LOGICAL_OR", some)

    assert turns(both) == 7
    assert turns(either) is None


def test_a_flag_that_a_turn_leaves_holds_for_one_turn_more() -> None:
    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        after = b.op("ADD", [variables[0], number(b, 1)])
        return [after, b.op("LESS", [after, number(b, 6)], dtype=DType.BOOL)]

    given = [counter(0), constant("flag", np.array(True))]
    op = loop(
        given, lambda b, variables: b.op("LOGICAL_NOT", [b.op("LOGICAL_NOT", variables[1:])]), turn
    )
    assert most_turns(op, SizeTable()) == 6


def test_an_end_that_a_run_decides_bounds_turns_by_what_it_is_at_most() -> None:
    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        return [b.op("ADD", [variables[0], number(b, 1)]), variables[1]]

    def condition(b: Builder, variables: list[Tensor]) -> Tensor:
        return b.op("LESS", variables, dtype=DType.BOOL)

    end, table = Tensor("end", DType.INT64, ()), SizeTable()
    op = loop([counter(0), end], condition, turn)
    assert most_turns(op, table) is None
    table.numbers[end] = (Size(15),)
    assert most_turns(op, table) == 15


def test_an_end_that_turns_change_bounds_nothing() -> None:
    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        return [b.op("ADD", [each, number(b, 1)]) for each in variables]

    def condition(b: Builder, variables: list[Tensor]) -> Tensor:
        return b.op("LESS", variables, dtype=DType.BOOL)

    assert most_turns(loop([counter(0), counter(9)], condition, turn), SizeTable()) is None


def test_a_counter_that_might_begin_anew_bounds_nothing() -> None:
    most = int(np.iinfo(np.int64).max)
    assert turns(compared("LESS", 0, most - 1), most - 8, 3) is None
    assert turns(compared("LESS", 0, most - 4), most - 8, 3) == 2
