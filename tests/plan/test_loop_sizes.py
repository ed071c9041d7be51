"""What sizes never exceed that the turns of a loop change."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import Builder, constant
from circlet.ops.layout import ConcatenationAttrs
from circlet.plan.loop_sizes import growth_and_most
from circlet.plan.size_rules import settle_sizes
from circlet.plan.sizes import GREATEST, LEAST, PRODUCT, SUM, Size, SizeTable
from tests.plan.loops import compared, loop, number


def joined(b: Builder, *parts: Tensor) -> Tensor:
    made = b.op("CONCATENATION", parts, ConcatenationAttrs(0))
    made.shape = (None, *parts[0].shape[1:])
    return made


def sizes(*starts: int, turns: int | None = 5, adding: tuple[int, ...] = (1,)) -> SizeTable | None:
    """Of a loop whose variables get so many rows in each turn."""
    given = [Tensor(f"x{i}", DType.FLOAT32, (size, 2)) for i, size in enumerate(starts)]

    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        row = b.constant("row", np.zeros((1, 2), np.float32))
        rest = [joined(b, t, *[row] * n) for t, n in zip(variables[1:], adding, strict=True)]
        return [b.op("ADD", [variables[0], number(b, 1)]), *rest]

    kind = "LESS" if turns is not None else "GREATER"
    start = constant("i", np.array(0, np.int64))
    op = loop([start, *given], compared(kind, 0, turns or 0), turn)
    return settled(op)


def settled(op: Op) -> SizeTable | None:
    from circlet.ir import Graph

    table = SizeTable()
    settle_sizes(Graph("main", [], [*op.outputs], [op]), table)
    return table if op.regions[1] in table.loops else None


def test_a_variable_grows_by_what_each_turn_joins_to_it() -> None:
    table = sizes(2, turns=5, adding=(3,))
    assert table is not None
    (found,) = next(iter(table.loops.values())).changing
    assert (found.first, found.turn.most, found.turn.fewest, found.last.most) == (2, 17, 2, 17)
    assert isinstance(found.after, Size)
    assert found.after.most == 17  # no turn is taken of 17 rows


def test_variables_that_grow_alike_have_one_size() -> None:
    table = sizes(1, 1, 2, turns=4, adding=(1, 1, 1))
    assert table is not None
    assert len(next(iter(table.loops.values())).changing) == 2
    table = sizes(1, 1, turns=4, adding=(1, 2))
    assert table is not None
    most = {found.last.most for found in next(iter(table.loops.values())).changing}
    assert most == {5, 9}


def test_nothing_bounds_a_loop_of_unknown_turns() -> None:
    assert sizes(1, turns=None) is None


S, OTHER = Size(8, 1), Size(5)


@pytest.mark.parametrize(
    ("form", "terms", "growth", "most"),
    [
        (SUM, (S, 2), 2, None),
        (SUM, (S, OTHER), 5, None),
        (SUM, (S, S), None, None),
        (PRODUCT, (S, 2), None, None),
        (LEAST, (S, 6), 0, 6),
        (GREATEST, (S, 6), 5, None),
        (GREATEST, (OTHER, 6), 5, 6),
    ],
)
def test_growth_follows_from_how_a_size_is_made(
    form: str, terms: tuple[int | Size, ...], growth: int | None, most: int | None
) -> None:
    made = Size(100, 0, form, terms)
    if made.terms == (OTHER, 6):
        made.most = most or 0
    assert growth_and_most(made, S) == (growth, most)


def test_long_chains_of_sizes_are_followed() -> None:
    made = S
    for _ in range(5000):
        made = Size(made.most + 1, 1, SUM, (made, 1))
    assert growth_and_most(made, S) == (5000, None)


def test_no_more_bodies_are_tried_than_are_allowed() -> None:
    table = SizeTable()
    made = [table.trial() for _ in range(1000)]
    assert made[0] is not None
    assert made[-1] is None
