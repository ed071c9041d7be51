"""The judge of plans lets tensors share a block only where they take turns."""

from __future__ import annotations

import pytest

from circlet.errors import GraphError
from circlet.plan.validate import Tenant, validate_tenants

HERE, THERE = (0, 16), (16, 16)


def tenant(first: int, last: int, family: int, place: tuple[int, ...] = HERE) -> Tenant:
    return Tenant(f"t{family}", 0, place, first, last, family)


@pytest.mark.parametrize(
    "tenants",
    [
        [],
        [tenant(0, 2, 1), tenant(3, 5, 2)],
        [tenant(0, 2, 1), tenant(2, 5, 2), tenant(5, 6, 3)],
        [tenant(0, 4, 1), tenant(1, 3, 1, THERE)],
        [tenant(0, 4, 1), tenant(0, 4, 2)._replace(block=1)],
        [tenant(0, 1, 1, THERE), tenant(0, 2, 1), tenant(2, 3, 2), tenant(3, 4, 2, THERE)],
    ],
    ids=["none", "apart", "handed on", "one family", "other blocks", "parts are over"],
)
def test_turns_are_taken(tenants: list[Tenant]) -> None:
    validate_tenants(tenants)


@pytest.mark.parametrize(
    "tenants",
    [
        [tenant(0, 3, 1), tenant(2, 5, 2)],
        [tenant(0, 2, 1), tenant(2, 5, 2, THERE)],
        [tenant(0, 2, 1), tenant(0, 2, 1, THERE), tenant(2, 5, 2)],
        [tenant(0, 9, 1), tenant(2, 3, 2), tenant(4, 5, 3)],
    ],
    ids=["read later", "another place", "a part is read as well", "around another"],
)
def test_what_is_still_needed_is_not_written_over(tenants: list[Tenant]) -> None:
    with pytest.raises(GraphError, match="written over what is still needed"):
        validate_tenants(tenants)
