"""The table of lowerings: what an operation of the Android Neural Networks API means in records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from circlet.formats.nnapi.call import Call

Lowering = Callable[["Call"], None]
Row = TypeVar("Row", bound=Lowering)

_TABLE: dict[str, Lowering] = {}


def lowers(*kinds: str) -> Callable[[Row], Row]:
    """Have a function lower operations of some kinds."""

    def add(function: Row) -> Row:
        for kind in kinds:
            if kind in _TABLE:
                raise ValueError(f"{kind} has a lowering already")
            _TABLE[kind] = function
        return function

    return add


def find_lowering(kind: str) -> Lowering | None:
    """What lowers an operation; None where nothing does."""
    return _TABLE.get(kind)


def lowered_kinds() -> list[str]:
    """Every operation that has a lowering."""
    return sorted(_TABLE)
