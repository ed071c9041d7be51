"""The validator of plans lets tensors share a block only where they take turns."""

from __future__ import annotations

import pytest

from circlet.errors import GraphError
from circlet.plan.validate import Alias, validate_aliases

pytestmark = pytest.mark.smoke

HERE, THERE = (0, 16), (16, 16)


def alias(first: int, last: int, family: int, place: tuple[int, ...] = HERE) -> Alias:
    return Alias(f"t{family}", 0, place, first, last, family)


@pytest.mark.parametrize(
    "aliases",
    [
        [],
        [alias(0, 2, 1), alias(3, 5, 2)],
        [alias(0, 2, 1), alias(2, 5, 2), alias(5, 6, 3)],
        [alias(0, 4, 1), alias(1, 3, 1, THERE)],
        [alias(0, 4, 1), alias(0, 4, 2)._replace(block=1)],
        [alias(0, 1, 1, THERE), alias(0, 2, 1), alias(2, 3, 2), alias(3, 4, 2, THERE)],
    ],
    ids=["none", "apart", "handed on", "one family", "other blocks", "parts are over"],
)
def test_turns_are_taken(aliases: list[Alias]) -> None:
    validate_aliases(aliases)


@pytest.mark.parametrize(
    "aliases",
    [
        [alias(0, 3, 1), alias(2, 5, 2)],
        [alias(0, 2, 1), alias(2, 5, 2, THERE)],
        [alias(0, 2, 1), alias(0, 2, 1, THERE), alias(2, 5, 2)],
        [alias(0, 9, 1), alias(2, 3, 2), alias(4, 5, 3)],
    ],
    ids=["read later", "another place", "a part is read as well", "around another"],
)
def test_what_is_still_needed_is_not_written_over(aliases: list[Alias]) -> None:
    with pytest.raises(GraphError, match="written over what is still needed"):
        validate_aliases(aliases)
